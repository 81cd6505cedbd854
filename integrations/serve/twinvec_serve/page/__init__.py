"""The web page of the server: its files and their routes."""
