# The watchdog is watched.
resource "aws_cloudwatch_metric_alarm" "silence" {
  alarm_name          = "${var.name}-SilenceAlarm"
  alarm_description   = "No pass of lastbeat could see the fleet in three intervals. Nobody is watching the runs."
  namespace           = "lastbeat"
  metric_name         = "PassesThatCouldSee"
  dimensions          = { service = var.name }
  statistic           = "Sum"
  period              = var.interval_minutes * 60
  evaluation_periods  = 3
  datapoints_to_alarm = 3
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = [aws_sns_topic.alerts.arn]
  ok_actions          = [aws_sns_topic.alerts.arn]
}

locals {
  depth = "ApproximateNumberOfMessagesVisible"
  alarms = {
    ErrorsAlarm       = ["AWS/Lambda", "Errors", "Sum", "FunctionName", var.name, "The watchdog's function failed; its log says why."]
    ThrottlesAlarm    = ["AWS/Lambda", "Throttles", "Sum", "FunctionName", var.name, "The watchdog's function was not let run; the account's concurrency is used up."]
    LostWorkAlarm     = ["AWS/SQS", local.depth, "Maximum", "QueueName", aws_sqs_queue.lost_work.name, "A message could not be dealt with, three times over; it lies in the queue of lost work."]
    LostEventsAlarm   = ["AWS/SQS", local.depth, "Maximum", "QueueName", aws_sqs_queue.lost_events.name, "A schedule's or a sentinel's event did not get through; it lies in the queue of lost events."]
    FailedAlertsAlarm = ["lastbeat", "AlertsFailed", "Sum", "service", var.name, "An alert could not be delivered on a channel; it is tried again, and the log says why."]
  }
}

resource "aws_cloudwatch_metric_alarm" "faults" {
  for_each            = local.alarms
  alarm_name          = "${var.name}-${each.key}"
  namespace           = each.value[0]
  metric_name         = each.value[1]
  statistic           = each.value[2]
  dimensions          = { (each.value[3]) = each.value[4] }
  alarm_description   = each.value[5]
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alerts.arn]
}

output "function_name" {
  description = "Invoke it with {} for a pass, or with {\"run_id\":\"…\"} for one run."
  value       = aws_lambda_function.watchdog.function_name
}

output "topic_arn" {
  description = "Subscribe everyone who gets the alerts."
  value       = aws_sns_topic.alerts.arn
}

output "queue_url" {
  description = "Takes {\"run_id\":\"…\"} for a run that is to be checked at once."
  value       = aws_sqs_queue.work.url
}
