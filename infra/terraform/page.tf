# The page of the fleet at an address of its own, only with a token. Its function may read what people see, write what they
# do with the token to operate, and nothing else.
locals {
  page = var.page_token == "" && var.page_operate_token == "" ? 0 : 1
  act  = var.page_operate_token == "" ? 0 : 1
  page_tokens = join(" ", compact([
    var.page_operate_token == "" ? "" : "operate:${var.page_operate_token}",
    var.page_token == "" ? "" : "view:${var.page_token}",
  ]))
  answers_slack = local.act == 1 && var.slack_signing_secret != ""
  # Alerts have buttons only where something answers them.
  slack = var.slack_bot_token == "" ? {} : {
    SLACK_BOT_TOKEN = local.answers_slack ? "${var.slack_bot_token} ${var.slack_signing_secret}" : var.slack_bot_token
    SLACK_CHANNEL   = var.slack_channel
  }
  # What decides how old a heartbeat may be, and what logs are searched for.
  shared = ["STALE_MINUTES", "LASTBEAT_STALL_MINUTES", "LASTBEAT_LEARN", "LASTBEAT_SIGNALS"]
}

resource "aws_lambda_function" "page" {
  count            = local.page
  function_name    = "${var.name}-page"
  description      = "Shows the training runs below s3://${var.bucket}/${var.prefix} to who has the token"
  filename         = var.zip
  source_code_hash = filebase64sha256(var.zip)
  handler          = "handler.handler"
  runtime          = var.runtime
  architectures    = [var.architecture]
  memory_size      = 1024
  timeout          = 30
  role             = aws_iam_role.page[0].arn

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.page[0].name
  }

  environment {
    variables = merge({ for name, value in var.settings : name => value if contains(local.shared, name) }, {
      MONITORING_BUCKET        = var.bucket
      MONITORING_PREFIX        = var.prefix
      MONITORING_REGION        = local.region
      LASTBEAT_DASHBOARD_TOKEN = local.page_tokens
      LASTBEAT_STATE_DIR       = "/tmp/lastbeat"
      POWERTOOLS_SERVICE_NAME  = var.name
    }, local.answers_slack ? local.slack : {})
  }
}

resource "aws_lambda_function_url" "page" {
  count         = local.page
  function_name = aws_lambda_function.page[0].function_name
  # The token is the door: browsers cannot sign requests as IAM wants them.
  authorization_type = "NONE"
}

# Lambda asks for both, and the second allows calls through the address alone.
resource "aws_lambda_permission" "page_url" {
  count                  = local.page
  function_name          = aws_lambda_function.page[0].function_name
  action                 = "lambda:InvokeFunctionUrl"
  principal              = "*"
  function_url_auth_type = "NONE"
}

resource "aws_lambda_permission" "page_call" {
  count                    = local.page
  function_name            = aws_lambda_function.page[0].function_name
  action                   = "lambda:InvokeFunction"
  principal                = "*"
  invoked_via_function_url = true
}

resource "aws_cloudwatch_log_group" "page" {
  count             = local.page
  name              = "/aws/lambda/${var.name}-page"
  retention_in_days = var.log_retention_days
}

resource "aws_iam_role" "page" {
  count              = local.page
  name               = "${var.name}-page"
  assume_role_policy = aws_iam_role.watchdog.assume_role_policy
}

resource "aws_iam_role_policy" "page" {
  count  = local.page
  name   = "look"
  role   = aws_iam_role.page[0].id
  policy = data.aws_iam_policy_document.page[0].json
}

data "aws_iam_policy_document" "page" {
  count = local.page

  statement {
    sid       = "ListRuns"
    actions   = ["s3:ListBucket"]
    resources = ["arn:${local.partition}:s3:::${var.bucket}"]

    # As for the watchdog.
    condition {
      test     = "StringLikeIfExists"
      variable = "s3:prefix"
      values   = ["${var.prefix}/*"]
    }
  }

  statement {
    sid     = "ReadWhatPeopleSee"
    actions = ["s3:GetObject"]
    resources = [
      "${local.runs}/_watchdog/*",
      "${local.runs}/*/metadata.json",
      "${local.runs}/*/progress.json",
      "${local.runs}/*/_watchdog.json",
      "${local.runs}/*/_alerts.json",
      "${local.runs}/*/_error",
      "${local.runs}/*/_complete",
      "${local.runs}/*/_preempted",
      "${local.runs}/*/_stop",
      "${local.runs}/*/logs/*",
      "${local.runs}/*/ranks/*",
      "${local.runs}/*/curves/*",
    ]
  }

  statement {
    sid       = "WriteLog"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.page[0].arn}:*"]
  }

  dynamic "statement" {
    for_each = length(var.key_arns) == 0 ? [] : [1]
    content {
      sid       = "ReadWithYourKeys"
      actions   = ["kms:Decrypt"]
      resources = var.key_arns
    }
  }
}

resource "aws_iam_role_policy" "page_act" {
  count  = local.act
  name   = "act"
  role   = aws_iam_role.page[0].id
  policy = data.aws_iam_policy_document.page_act[0].json
}

data "aws_iam_policy_document" "page_act" {
  count = local.act

  statement {
    sid     = "WriteWhatPeopleDo"
    actions = ["s3:PutObject"]
    resources = [
      "${local.runs}/*/_watchdog.json",
      "${local.runs}/*/_stop",
      "${local.runs}/_watchdog/silences.json",
      "${local.runs}/_watchdog/slack.json",
      "${local.runs}/_watchdog/views.json",
    ]
  }

  dynamic "statement" {
    for_each = length(var.key_arns) == 0 ? [] : [1]
    content {
      sid       = "WriteWithYourKeys"
      actions   = ["kms:GenerateDataKey"]
      resources = var.key_arns
    }
  }
}

output "page_url" {
  description = "The page of the fleet; append ?token= and the token once, or enter it there."
  value       = one(aws_lambda_function_url.page[*].function_url)
}
