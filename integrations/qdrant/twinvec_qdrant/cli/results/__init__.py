"""What the commands that find documents print: hits, their places, and documents."""
