"""What random networks are made of, by topic; `file.py` writes the user's file."""
