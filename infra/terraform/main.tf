# The watchdog as a Lambda function, with the resources and rights of infra/template.yaml; docs/deploy.md explains them.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.29"
    }
  }
}

data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}
data "aws_region" "this" {}

locals {
  account   = data.aws_caller_identity.this.account_id
  partition = data.aws_partition.this.partition
  region    = data.aws_region.this.region
  runs      = "arn:${local.partition}:s3:::${var.bucket}/${var.prefix}"
  webhook = (
    var.slack_webhook_parameter != "" ? "ssm:${var.slack_webhook_parameter}" :
    var.slack_webhook_secret != "" ? "secretsmanager:${var.slack_webhook_secret}" : ""
  )
}

# The function, and what calls it.
resource "aws_lambda_function" "watchdog" {
  function_name    = var.name
  description      = "Watches the training runs below s3://${var.bucket}/${var.prefix}"
  filename         = var.zip
  source_code_hash = filebase64sha256(var.zip)
  handler          = "handler.handler"
  runtime          = var.runtime
  architectures    = [var.architecture]
  memory_size      = var.memory_mb
  timeout          = 60
  role             = aws_iam_role.watchdog.arn

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.watchdog.name
  }

  environment {
    variables = merge({
      MONITORING_BUCKET           = var.bucket
      MONITORING_PREFIX           = var.prefix
      MONITORING_REGION           = local.region
      SNS_TOPIC_ARN               = aws_sns_topic.alerts.arn
      LASTBEAT_SLACK_WEBHOOK_FROM = local.webhook
      LASTBEAT_INTERVAL_SECONDS   = var.interval_minutes * 60
      LASTBEAT_QUEUE_URL          = aws_sqs_queue.work.url
      LASTBEAT_DIGEST             = var.digest
      LASTBEAT_SWEEP              = "fanout:${var.fanout_runs}"
      LASTBEAT_STATE_DIR          = "/tmp/lastbeat"
      POWERTOOLS_SERVICE_NAME     = var.name
    }, local.slack, var.settings)
  }
}

resource "aws_lambda_function_event_invoke_config" "watchdog" {
  function_name                = aws_lambda_function.watchdog.function_name
  maximum_event_age_in_seconds = 300
  maximum_retry_attempts       = 1

  destination_config {
    on_failure {
      destination = aws_sqs_queue.lost_events.arn
    }
  }
}

resource "aws_cloudwatch_log_group" "watchdog" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
}

resource "aws_cloudwatch_event_rule" "schedule" {
  name                = "${var.name}-schedule"
  schedule_expression = "rate(${var.interval_minutes} ${var.interval_minutes == 1 ? "minute" : "minutes"})"
}

resource "aws_cloudwatch_event_rule" "sentinel" {
  name = "${var.name}-sentinel"
  event_pattern = jsonencode({
    source      = ["aws.s3"]
    detail-type = ["Object Created"]
    detail = {
      bucket = { name = [var.bucket] }
      object = { key = [for name in ["_error", "_complete", "_preempted"] : { wildcard = "${var.prefix}/*/${name}" }] }
    }
  })
}

locals {
  rules = { schedule = aws_cloudwatch_event_rule.schedule, sentinel = aws_cloudwatch_event_rule.sentinel }
  # Seconds and times that EventBridge tries.
  patience = { schedule = [60, 1], sentinel = [300, 3] }
}

resource "aws_cloudwatch_event_target" "watchdog" {
  for_each = local.rules
  rule     = each.value.name
  arn      = aws_lambda_function.watchdog.arn

  retry_policy {
    maximum_event_age_in_seconds = local.patience[each.key][0]
    maximum_retry_attempts       = local.patience[each.key][1]
  }

  dead_letter_config {
    arn = aws_sqs_queue.lost_events.arn
  }
}

resource "aws_lambda_permission" "events" {
  for_each      = local.rules
  function_name = aws_lambda_function.watchdog.function_name
  action        = "lambda:InvokeFunction"
  principal     = "events.amazonaws.com"
  source_arn    = each.value.arn
}

resource "aws_lambda_event_source_mapping" "parts" {
  function_name           = aws_lambda_function.watchdog.arn
  event_source_arn        = aws_sqs_queue.work.arn
  batch_size              = 1
  function_response_types = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.workers
  }
}

# What it may do, and no more.
resource "aws_iam_role" "watchdog" {
  name = var.name
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" }, Action = "sts:AssumeRole" }
    ]
  })
}

resource "aws_iam_role_policy" "watchdog" {
  name   = "watch"
  role   = aws_iam_role.watchdog.id
  policy = data.aws_iam_policy_document.watchdog.json
}

data "aws_iam_policy_document" "watchdog" {
  statement {
    sid       = "ListRuns"
    actions   = ["s3:ListBucket"]
    resources = ["arn:${local.partition}:s3:::${var.bucket}"]

    # IfExists: a role that may not list gets 403 in place of 404 for an object that is not there. A read has no prefix.
    condition {
      test     = "StringLikeIfExists"
      variable = "s3:prefix"
      values   = ["${var.prefix}/*"]
    }
  }

  statement {
    sid     = "ReadWhatRunsWrite"
    actions = ["s3:GetObject"]
    resources = [
      "${local.runs}/*/metadata.json",
      "${local.runs}/*/progress.json",
      "${local.runs}/*/_error",
      "${local.runs}/*/_complete",
      "${local.runs}/*/_preempted",
      "${local.runs}/*/_alerts.json",
      "${local.runs}/*/_stop",
      "${local.runs}/*/logs/*",
      "${local.runs}/*/ranks/*",
    ]
  }

  statement {
    sid       = "KeepRecords"
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["${local.runs}/*/_watchdog.json", "${local.runs}/_watchdog/*"]
  }

  statement {
    sid       = "TellPeople"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.alerts.arn]
  }

  statement {
    sid       = "EncryptWhatIsTold"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [aws_kms_key.alerts.arn]
  }

  statement {
    sid       = "SplitAPass"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.work.arn]
  }

  # What Lambda itself does in the function's name.
  statement {
    sid       = "TakeParts"
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    resources = [aws_sqs_queue.work.arn]
  }

  statement {
    sid       = "KeepLostEvents"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.lost_events.arn]
  }

  statement {
    sid       = "WriteLog"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.watchdog.arn}:*"]
  }

  dynamic "statement" {
    for_each = var.slack_webhook_parameter == "" ? [] : [1]
    content {
      sid       = "ReadWebhookParameter"
      actions   = ["ssm:GetParameter"]
      resources = ["arn:${local.partition}:ssm:${local.region}:${local.account}:parameter${var.slack_webhook_parameter}"]
    }
  }

  dynamic "statement" {
    for_each = var.slack_webhook_secret == "" ? [] : [1]
    content {
      sid     = "ReadWebhookSecret"
      actions = ["secretsmanager:GetSecretValue"]
      # Secrets Manager adds six characters to a secret's name.
      resources = ["arn:${local.partition}:secretsmanager:${local.region}:${local.account}:secret:${var.slack_webhook_secret}-??????"]
    }
  }

  dynamic "statement" {
    for_each = length(var.key_arns) == 0 ? [] : [1]
    content {
      sid       = "UseYourKeys"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = var.key_arns
    }
  }
}

# Who gets alerts. CloudWatch may not use the key that AWS keeps for SNS.
resource "aws_kms_key" "alerts" {
  description             = "Encrypts the alerts of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 7
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Administer"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "Alarms"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey*"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
    ]
  })
}

resource "aws_sns_topic" "alerts" {
  name              = "${var.name}-alerts"
  display_name      = "lastbeat"
  kms_master_key_id = aws_kms_key.alerts.arn
}

resource "aws_sns_topic_policy" "alerts" {
  arn = aws_sns_topic.alerts.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Alarms"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.alerts.arn
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
      {
        Sid       = "EncryptedConnectionsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.alerts.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_sns_topic_subscription" "mail" {
  count     = var.alert_email == "" ? 0 : 1
  topic_arn = aws_sns_topic.alerts.arn
  protocol  = "email"
  endpoint  = var.alert_email
}

# Parts of a split pass, and runs to check at once: {"run_id": "…"}.
resource "aws_sqs_queue" "work" {
  name                    = "${var.name}-work"
  sqs_managed_sse_enabled = true
  # Six times the function's time limit, as Lambda advises.
  visibility_timeout_seconds = 360
  message_retention_seconds  = 3600
  redrive_policy             = jsonencode({ deadLetterTargetArn = aws_sqs_queue.lost_work.arn, maxReceiveCount = 3 })
}

resource "aws_sqs_queue" "lost_work" {
  name                      = "${var.name}-lost-work"
  sqs_managed_sse_enabled   = true
  message_retention_seconds = 1209600
}

resource "aws_sqs_queue" "lost_events" {
  name                      = "${var.name}-lost-events"
  sqs_managed_sse_enabled   = true
  message_retention_seconds = 1209600
}

locals {
  queues = { work = aws_sqs_queue.work, lost_work = aws_sqs_queue.lost_work, lost_events = aws_sqs_queue.lost_events }
  lost = [{
    Sid       = "LostEvents"
    Effect    = "Allow"
    Principal = { Service = "events.amazonaws.com" }
    Action    = "sqs:SendMessage"
    Resource  = aws_sqs_queue.lost_events.arn
    Condition = { ArnEquals = { "aws:SourceArn" = [for rule in local.rules : rule.arn] } }
  }]
}

resource "aws_sqs_queue_policy" "queues" {
  for_each  = local.queues
  queue_url = each.value.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(each.key == "lost_events" ? local.lost : [], [{
      Sid       = "EncryptedConnectionsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "sqs:*"
      Resource  = each.value.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }])
  })
}
