"""The routes: what each request is, and what it is answered with."""
