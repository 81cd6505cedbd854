"""Reports: models compared side by side, as a page with tables and plots."""
