"""Who may ask what: keys, hosts and origins, sizes, headers of answers."""
