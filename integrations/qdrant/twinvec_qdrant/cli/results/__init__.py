"""The output of commands that find documents: hits, their files, lines and pages, and whole documents."""
