"""Reading: a folder, a file or standard input -> documents.

``root`` describes the source, ``walking`` finds the files of a folder, ``files`` reads a file that is one document, and
``records`` reads a file that holds several.
"""
