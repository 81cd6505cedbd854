"""Files that hold several documents: lines or arrays of JSON, rows of a table, or the e-mails of a mailbox."""
