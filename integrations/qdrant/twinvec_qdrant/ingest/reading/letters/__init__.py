"""Letters: mail, its parts, and the events that it invites to."""
