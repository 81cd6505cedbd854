"""The routes: the requests and answers of the API."""
