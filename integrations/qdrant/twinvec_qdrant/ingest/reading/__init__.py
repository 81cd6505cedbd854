"""Reading: a folder, a file or standard input -> documents.

``root`` describes the source, ``walking`` finds the files of a folder, ``files`` reads one file, and ``records`` and
``tables`` read the records of JSON lines and of tables.
"""
