"""Reading: what the user named (a folder, a file, standard input) -> documents.

``root`` says what is read, ``walking`` finds the files of a folder, ``files`` reads one file, and ``records`` and
``tables`` read the records of JSON lines and of tables.
"""
