"""Records: files that hold several documents: lines and arrays of JSON, rows of tables, e-mails of a mailbox."""
