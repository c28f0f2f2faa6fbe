variable "name" {
  description = "Name of the function, and the beginning of every other name."
  type        = string
  default     = "lastbeat"
}

variable "bucket" {
  description = "Bucket that the runs lie in, in this region, with its notifications to EventBridge turned on."
  type        = string
}

variable "prefix" {
  description = "Folder of the runs in the bucket, without a slash at either end."
  type        = string
  default     = "training-runs"
}

variable "zip" {
  description = "The function's zip, as infra/package.sh builds it."
  type        = string
}

variable "architecture" {
  description = "What the zip was built for: arm64 or x86_64."
  type        = string
  default     = "arm64"
}

variable "runtime" {
  description = "What the zip was built for: python3.11 to python3.14."
  type        = string
  default     = "python3.13"
}

variable "interval_minutes" {
  description = "Minutes between two passes over the fleet."
  type        = number
  default     = 1
}

variable "settings" {
  description = "Further settings that are no secrets, by their names: { ALERT_ON = \"failed,timed_out\" }."
  type        = map(string)
  default     = {}
}

variable "digest" {
  description = "Time of day and zone of a daily digest, 08:00 Europe/Zurich for example; empty for none."
  type        = string
  default     = ""
}

variable "page_token" {
  description = "Token of 16 to 200 letters, digits and ._~- that opens the page of the fleet at an address of its own, and only views; empty for none."
  type        = string
  default     = ""
  sensitive   = true

  validation {
    condition     = can(regex("^([A-Za-z0-9._~-]{16,200})?$", var.page_token))
    error_message = "A token has 16 to 200 letters, digits and ._~-."
  }
}

variable "page_operate_token" {
  description = "Token that opens the page, and acts on runs there: its function may then write what acting needs. Empty for none; with neither token there is no page."
  type        = string
  default     = ""
  sensitive   = true

  validation {
    condition     = can(regex("^([A-Za-z0-9._~-]{16,200})?$", var.page_operate_token))
    error_message = "A token has 16 to 200 letters, digits and ._~-."
  }
}

variable "slack_bot_token" {
  description = "Token of a Slack app's bot, which keeps a thread a run in slack_channel; empty for none."
  type        = string
  default     = ""
  sensitive   = true
}

variable "slack_signing_secret" {
  description = "The app's signing secret, for a page that acts: it answers the buttons of the bot's alerts and /lastbeat in Slack."
  type        = string
  default     = ""
  sensitive   = true
}

variable "slack_channel" {
  description = "Id of the bot's channel; requests of Slack's are answered only there."
  type        = string
  default     = ""
}

variable "slack_webhook_parameter" {
  description = "Name of the SecureString in Parameter Store that holds the Slack webhook, with its leading slash; empty for none."
  type        = string
  default     = ""
}

variable "slack_webhook_secret" {
  description = "Or the name of the secret in Secrets Manager that holds it."
  type        = string
  default     = ""
}

variable "alert_email" {
  description = "Address that the topic's mail goes to; it has to be confirmed once. Empty for none."
  type        = string
  default     = ""
}

variable "memory_mb" {
  description = "Memory of the function; its share of a processor grows with it."
  type        = number
  default     = 512
}

variable "fanout_runs" {
  description = "With more active runs than this a pass is split over the queue."
  type        = number
  default     = 2000
}

variable "workers" {
  description = "Most parts of a split pass that are swept at once."
  type        = number
  default     = 10
}

variable "log_retention_days" {
  description = "Days that the function's log is kept."
  type        = number
  default     = 30
}

variable "key_arns" {
  description = "ARNs of the KMS keys of your own that the bucket or the webhook is encrypted with."
  type        = list(string)
  default     = []
}
