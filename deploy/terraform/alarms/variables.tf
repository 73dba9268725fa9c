# This file is made from deploy/cloudformation/alarms.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

variable "region" {
  type        = string
  description = "Region of the provider."
}

variable "name" {
  type        = string
  description = "Begins the names of the module's resources."
}

variable "table_name" {
  type        = string
  description = "FANFARE_TABLE."
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_.-]{3,255})$", var.table_name))
    error_message = "table_name must have 3 to 255 of A-Z a-z 0-9 . _ -."
  }
}

variable "queue_prefix" {
  type        = string
  description = "FANFARE_QUEUE_PREFIX."
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_-]{1,60})$", var.queue_prefix))
    error_message = "queue_prefix must have 1 to 60 of A-Z a-z 0-9 _ -."
  }
}

variable "services" {
  type        = object({ name = string, cluster = string, api = string, fanout = string, likeagg = string })
  description = "The output exports of the module services. null on Kubernetes, whose daemons have no alarms here."
  default     = null
}

variable "load_balancer_arn" {
  type        = string
  description = "The ARN of the Application Load Balancer before the api. Empty for no alarms on it."
  default     = ""
  validation {
    condition     = can(regex("^(?:(arn:[a-z-]+:elasticloadbalancing:.+:loadbalancer/app/.+/.+)?)$", var.load_balancer_arn))
    error_message = "load_balancer_arn must be the ARN of an Application Load Balancer, or empty."
  }
}

variable "target_group_arn" {
  type        = string
  description = "The ARN of its target group."
  default     = ""
  validation {
    condition     = can(regex("^(?:(arn:[a-z-]+:elasticloadbalancing:.+:targetgroup/.+/.+)?)$", var.target_group_arn))
    error_message = "target_group_arn must be the ARN of a target group."
  }
}

variable "alarm_topic_arn" {
  type        = string
  description = "The ARN of an SNS topic for the alarms. Without one they only show in CloudWatch."
  default     = ""
}
