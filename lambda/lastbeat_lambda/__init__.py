"""The Lambda function around lastbeat: events, the warm environment, logs and metrics."""
