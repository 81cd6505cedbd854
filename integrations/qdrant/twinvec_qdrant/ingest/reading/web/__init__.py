"""Web: the pages that browsers show, and the formats that hold such pages."""
