"""The page and its data as a WSGI application, for the server of ``lastbeat dashboard`` and for the Lambda function."""
