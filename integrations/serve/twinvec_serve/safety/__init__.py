"""Protection of the server: API keys, hosts and origins, sizes of requests, headers of answers."""
