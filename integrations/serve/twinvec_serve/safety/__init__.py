"""Protection of the server: keys, hosts and origins, sizes of requests, headers of answers."""
