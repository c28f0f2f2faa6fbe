"""What the Lambda function adds to lastbeat: events, what stays warm, logs and metrics."""
