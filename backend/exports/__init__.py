"""What other programs get of a job or a race, written by a client of the API: nothing here runs in the server.

So the program that asks decides where a file or a tracking server is, and the server connects to nobody.
"""
