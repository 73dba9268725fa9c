# The table and the queues of Fanfare. A deletion of the stack keeps them.
# This file is made from deploy/cloudformation/data.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

terraform {
  required_version = ">= 1.5"
  required_providers {
    awscc = {
      source  = "hashicorp/awscc"
      version = "~> 1.106"
    }
  }
}

variable "table_name" {
  type        = string
  description = "FANFARE_TABLE"
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_.-]{3,255})$", var.table_name))
    error_message = "The value does not match the pattern of the condition."
  }
}

variable "queue_prefix" {
  type        = string
  description = "FANFARE_QUEUE_PREFIX"
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_-]{1,60})$", var.queue_prefix))
    error_message = "The value does not match the pattern of the condition."
  }
}

variable "billing_mode" {
  type        = string
  description = "On demand, or units that you pay for around the clock, with policies that scale them."
  default     = "PAY_PER_REQUEST"
  validation {
    condition     = contains(["PAY_PER_REQUEST", "PROVISIONED"], var.billing_mode)
    error_message = "The value does not match the pattern of the condition."
  }
}

variable "warm_read_units" {
  type        = string
  description = "Read units a second that the table and its index take from the first second on. 0 is AWS's default for a new table, 12,000."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|1[2-9][0-9]{3}|[2-9][0-9]{4}|[1-9][0-9]{5,6})$", var.warm_read_units))
    error_message = "WarmReadUnits must be 0 or a whole number from 12000 to 9999999"
  }
}

variable "warm_write_units" {
  type        = string
  description = "Write units a second that the table and its index take from the first second on. 0 is AWS's default for a new table, 4,000."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[4-9][0-9]{3}|[1-9][0-9]{4,6})$", var.warm_write_units))
    error_message = "WarmWriteUnits must be 0 or a whole number from 4000 to 9999999"
  }
}

variable "max_write_units" {
  type        = string
  description = "The most write units a second on demand, of the table and again of its index. 0 is no ceiling."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.max_write_units))
    error_message = "MaxWriteUnits must be a whole number from 0 to 9999999"
  }
}

variable "max_read_units" {
  type        = string
  description = "The most read units a second on demand, of the table and again of its index. 0 is no ceiling."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.max_read_units))
    error_message = "MaxReadUnits must be a whole number from 0 to 9999999"
  }
}

variable "write_units" {
  type        = string
  description = "Write units a second of the table with PROVISIONED, the least and the most that its policy scales to."
  default     = "0-0"
  validation {
    condition     = can(regex("^(?:0-0|[1-9]-[1-9][0-9]{1,6}|[1-9][0-9]-[1-9][0-9]{2,6}|[1-9][0-9]{2}-[1-9][0-9]{3,6}|[1-9][0-9]{3}-[1-9][0-9]{4,6}|[1-9][0-9]{4}-[1-9][0-9]{5,6}|[1-9][0-9]{5}-[1-9][0-9]{6})$", var.write_units))
    error_message = "WriteUnits must be the least and the most units, such as 500-10000. CloudFormation compares no numbers, so the most needs more digits than the least. Write 999-4000 in place of 1000-4000."
  }
}

variable "read_units" {
  type        = string
  description = "Read units a second of the table with PROVISIONED, the least and the most that its policy scales to."
  default     = "0-0"
  validation {
    condition     = can(regex("^(?:0-0|[1-9]-[1-9][0-9]{1,6}|[1-9][0-9]-[1-9][0-9]{2,6}|[1-9][0-9]{2}-[1-9][0-9]{3,6}|[1-9][0-9]{3}-[1-9][0-9]{4,6}|[1-9][0-9]{4}-[1-9][0-9]{5,6}|[1-9][0-9]{5}-[1-9][0-9]{6})$", var.read_units))
    error_message = "ReadUnits must be the least and the most units, such as 500-10000. CloudFormation compares no numbers, so the most needs more digits than the least. Write 999-4000 in place of 1000-4000."
  }
}

variable "index_write_units" {
  type        = string
  description = "Write units a second of the index with PROVISIONED, the least and the most that its policy scales to."
  default     = "0-0"
  validation {
    condition     = can(regex("^(?:0-0|[1-9]-[1-9][0-9]{1,6}|[1-9][0-9]-[1-9][0-9]{2,6}|[1-9][0-9]{2}-[1-9][0-9]{3,6}|[1-9][0-9]{3}-[1-9][0-9]{4,6}|[1-9][0-9]{4}-[1-9][0-9]{5,6}|[1-9][0-9]{5}-[1-9][0-9]{6})$", var.index_write_units))
    error_message = "IndexWriteUnits must be the least and the most units, such as 500-10000. CloudFormation compares no numbers, so the most needs more digits than the least. Write 999-4000 in place of 1000-4000."
  }
}

variable "index_read_units" {
  type        = string
  description = "Read units a second of the index with PROVISIONED, the least and the most that its policy scales to."
  default     = "0-0"
  validation {
    condition     = can(regex("^(?:0-0|[1-9]-[1-9][0-9]{1,6}|[1-9][0-9]-[1-9][0-9]{2,6}|[1-9][0-9]{2}-[1-9][0-9]{3,6}|[1-9][0-9]{3}-[1-9][0-9]{4,6}|[1-9][0-9]{4}-[1-9][0-9]{5,6}|[1-9][0-9]{5}-[1-9][0-9]{6})$", var.index_read_units))
    error_message = "IndexReadUnits must be the least and the most units, such as 500-10000. CloudFormation compares no numbers, so the most needs more digits than the least. Write 999-4000 in place of 1000-4000."
  }
}

variable "first_write_units" {
  type        = string
  description = "Write units of the table when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.first_write_units))
    error_message = "FirstWriteUnits must be a whole number from 0 to 9999999"
  }
}

variable "first_read_units" {
  type        = string
  description = "Read units of the table when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.first_read_units))
    error_message = "FirstReadUnits must be a whole number from 0 to 9999999"
  }
}

variable "first_index_write_units" {
  type        = string
  description = "Write units of the index when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.first_index_write_units))
    error_message = "FirstIndexWriteUnits must be a whole number from 0 to 9999999"
  }
}

variable "first_index_read_units" {
  type        = string
  description = "Read units of the index when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = "0"
  validation {
    condition     = can(regex("^(?:0|[1-9][0-9]{0,6})$", var.first_index_read_units))
    error_message = "FirstIndexReadUnits must be a whole number from 0 to 9999999"
  }
}

variable "deletion_protection" {
  type        = string
  description = "AWS refuses to delete the table."
  default     = "true"
  validation {
    condition     = contains(["true", "false"], var.deletion_protection)
    error_message = "The value does not match the pattern of the condition."
  }
}

locals {
  is_provisioned = var.billing_mode == "PROVISIONED"
  caps_writes    = !(var.max_write_units == "0")
  caps_reads     = !(var.max_read_units == "0")
  caps           = (local.caps_writes) || (local.caps_reads)
  warms_writes   = !(var.warm_write_units == "0")
  warms_reads    = !(var.warm_read_units == "0")
  warms          = (local.warms_writes) || (local.warms_reads)
}

resource "terraform_data" "rules" {
  lifecycle {
    precondition {
      condition     = !(var.billing_mode == "PROVISIONED") || ((var.max_write_units == "0") && (var.max_read_units == "0"))
      error_message = "With PROVISIONED the ceilings are the ends of WriteUnits and its kind, so set MaxWriteUnits and MaxReadUnits to 0."
    }
    precondition {
      condition     = !(var.billing_mode == "PROVISIONED") || (!((var.write_units == "0-0") || (var.read_units == "0-0") || (var.index_write_units == "0-0") || (var.index_read_units == "0-0")))
      error_message = "PROVISIONED needs WriteUnits, ReadUnits, IndexWriteUnits and IndexReadUnits, the least and the most of each, such as 500-10000."
    }
    precondition {
      condition     = !(var.billing_mode == "PROVISIONED") || (!((var.first_write_units == "0") || (var.first_read_units == "0") || (var.first_index_write_units == "0") || (var.first_index_read_units == "0")))
      error_message = "PROVISIONED needs FirstWriteUnits, FirstReadUnits, FirstIndexWriteUnits and FirstIndexReadUnits, the units that it begins with."
    }
    precondition {
      condition     = !(var.billing_mode == "PROVISIONED") || ((var.warm_write_units == "0") && (var.warm_read_units == "0"))
      error_message = "With PROVISIONED the first units warm the table, so set WarmWriteUnits and WarmReadUnits to 0, which leaves a table as warm as it is."
    }
    precondition {
      condition     = !(!(var.max_write_units == "0")) || ((var.warm_write_units == "0") || (var.warm_write_units == var.max_write_units))
      error_message = "A ceiling caps warm units that were paid for, so set WarmWriteUnits to MaxWriteUnits, or to 0, which leaves the table as warm as it is."
    }
    precondition {
      condition     = !(!(var.max_read_units == "0")) || ((var.warm_read_units == "0") || (var.warm_read_units == var.max_read_units))
      error_message = "A ceiling caps warm units that were paid for, so set WarmReadUnits to MaxReadUnits, or to 0, which leaves the table as warm as it is."
    }
  }
}

resource "awscc_dynamodb_table" "table" {
  table_name   = var.table_name
  billing_mode = var.billing_mode
  attribute_definitions = [{
    attribute_name = "PK"
    attribute_type = "S"
    }, {
    attribute_name = "SK"
    attribute_type = "S"
    }, {
    attribute_name = "GSI1PK"
    attribute_type = "S"
    }, {
    attribute_name = "GSI1SK"
    attribute_type = "S"
  }]
  key_schema = jsonencode([{
    "AttributeName" = "PK"
    "KeyType"       = "HASH"
    }, {
    "AttributeName" = "SK"
    "KeyType"       = "RANGE"
  }])
  global_secondary_indexes = [{
    index_name = "GSI1"
    key_schema = [{
      attribute_name = "GSI1PK"
      key_type       = "HASH"
      }, {
      attribute_name = "GSI1SK"
      key_type       = "RANGE"
    }]
    projection = {
      projection_type = "ALL"
    }
    provisioned_throughput = (local.is_provisioned ? {
      read_capacity_units  = var.first_index_read_units
      write_capacity_units = var.first_index_write_units
    } : null)
    on_demand_throughput = (local.caps ? {
      max_read_request_units  = (local.caps_reads ? var.max_read_units : null)
      max_write_request_units = (local.caps_writes ? var.max_write_units : null)
    } : null)
    warm_throughput = (local.warms ? {
      read_units_per_second  = (local.warms_reads ? var.warm_read_units : 12000)
      write_units_per_second = (local.warms_writes ? var.warm_write_units : 4000)
    } : null)
  }]
  provisioned_throughput = (local.is_provisioned ? {
    read_capacity_units  = var.first_read_units
    write_capacity_units = var.first_write_units
  } : null)
  on_demand_throughput = (local.caps ? {
    max_read_request_units  = (local.caps_reads ? var.max_read_units : null)
    max_write_request_units = (local.caps_writes ? var.max_write_units : null)
  } : null)
  warm_throughput = (local.warms ? {
    read_units_per_second  = (local.warms_reads ? var.warm_read_units : 12000)
    write_units_per_second = (local.warms_writes ? var.warm_write_units : 4000)
  } : null)
  time_to_live_specification = {
    attribute_name = "ttl"
    enabled        = true
  }
  point_in_time_recovery_specification = {
    point_in_time_recovery_enabled = true
  }
  deletion_protection_enabled = var.deletion_protection
  sse_specification = {
    sse_enabled = true
  }
  lifecycle {
    prevent_destroy = true
  }
}

# The pace of fan-out can limit writes, and nothing can limit reads. A full index refuses writes of the
# table.
resource "awscc_applicationautoscaling_scalable_target" "scaled_writes" {
  count              = local.is_provisioned ? 1 : 0
  service_namespace  = "dynamodb"
  resource_id        = "table/${awscc_dynamodb_table.table.table_name}"
  scalable_dimension = "dynamodb:table:WriteCapacityUnits"
  min_capacity       = split("-", var.write_units)[0]
  max_capacity       = split("-", var.write_units)[1]
}

resource "awscc_applicationautoscaling_scaling_policy" "write_policy" {
  count             = local.is_provisioned ? 1 : 0
  policy_name       = "writes"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.scaled_writes[0].scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value = 70
    predefined_metric_specification = {
      predefined_metric_type = "DynamoDBWriteCapacityUtilization"
    }
  }
}

resource "awscc_applicationautoscaling_scalable_target" "scaled_reads" {
  count              = local.is_provisioned ? 1 : 0
  service_namespace  = "dynamodb"
  resource_id        = "table/${awscc_dynamodb_table.table.table_name}"
  scalable_dimension = "dynamodb:table:ReadCapacityUnits"
  min_capacity       = split("-", var.read_units)[0]
  max_capacity       = split("-", var.read_units)[1]
}

resource "awscc_applicationautoscaling_scaling_policy" "read_policy" {
  count             = local.is_provisioned ? 1 : 0
  policy_name       = "reads"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.scaled_reads[0].scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value = 60
    predefined_metric_specification = {
      predefined_metric_type = "DynamoDBReadCapacityUtilization"
    }
  }
}

resource "awscc_applicationautoscaling_scalable_target" "scaled_index_writes" {
  count              = local.is_provisioned ? 1 : 0
  service_namespace  = "dynamodb"
  resource_id        = "table/${awscc_dynamodb_table.table.table_name}/index/GSI1"
  scalable_dimension = "dynamodb:index:WriteCapacityUnits"
  min_capacity       = split("-", var.index_write_units)[0]
  max_capacity       = split("-", var.index_write_units)[1]
}

resource "awscc_applicationautoscaling_scaling_policy" "index_write_policy" {
  count             = local.is_provisioned ? 1 : 0
  policy_name       = "index-writes"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.scaled_index_writes[0].scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value = 50
    predefined_metric_specification = {
      predefined_metric_type = "DynamoDBWriteCapacityUtilization"
    }
  }
}

resource "awscc_applicationautoscaling_scalable_target" "scaled_index_reads" {
  count              = local.is_provisioned ? 1 : 0
  service_namespace  = "dynamodb"
  resource_id        = "table/${awscc_dynamodb_table.table.table_name}/index/GSI1"
  scalable_dimension = "dynamodb:index:ReadCapacityUnits"
  min_capacity       = split("-", var.index_read_units)[0]
  max_capacity       = split("-", var.index_read_units)[1]
}

resource "awscc_applicationautoscaling_scaling_policy" "index_read_policy" {
  count             = local.is_provisioned ? 1 : 0
  policy_name       = "index-reads"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.scaled_index_reads[0].scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value = 50
    predefined_metric_specification = {
      predefined_metric_type = "DynamoDBReadCapacityUtilization"
    }
  }
}

resource "awscc_sqs_queue" "posts_dead" {
  queue_name               = "${var.queue_prefix}-posts-dlq"
  message_retention_period = 1209600
  maximum_message_size     = 1048576
  sqs_managed_sse_enabled  = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "posts" {
  queue_name                        = "${var.queue_prefix}-posts"
  message_retention_period          = 1209600
  maximum_message_size              = 1048576
  visibility_timeout                = 60
  receive_message_wait_time_seconds = 5
  redrive_policy = jsonencode({
    "deadLetterTargetArn" = awscc_sqs_queue.posts_dead.arn
    "maxReceiveCount"     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "backfills_dead" {
  queue_name               = "${var.queue_prefix}-backfills-dlq"
  message_retention_period = 1209600
  maximum_message_size     = 1048576
  sqs_managed_sse_enabled  = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "backfills" {
  queue_name                        = "${var.queue_prefix}-backfills"
  message_retention_period          = 1209600
  maximum_message_size              = 1048576
  visibility_timeout                = 60
  receive_message_wait_time_seconds = 5
  redrive_policy = jsonencode({
    "deadLetterTargetArn" = awscc_sqs_queue.backfills_dead.arn
    "maxReceiveCount"     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "chunks_dead" {
  queue_name               = "${var.queue_prefix}-chunks-dlq"
  message_retention_period = 1209600
  maximum_message_size     = 1048576
  sqs_managed_sse_enabled  = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "chunks" {
  queue_name                        = "${var.queue_prefix}-chunks"
  message_retention_period          = 1209600
  maximum_message_size              = 1048576
  visibility_timeout                = 60
  receive_message_wait_time_seconds = 5
  redrive_policy = jsonencode({
    "deadLetterTargetArn" = awscc_sqs_queue.chunks_dead.arn
    "maxReceiveCount"     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "likes_dead" {
  queue_name               = "${var.queue_prefix}-likes-dlq"
  message_retention_period = 1209600
  maximum_message_size     = 1048576
  sqs_managed_sse_enabled  = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "likes" {
  queue_name                        = "${var.queue_prefix}-likes"
  message_retention_period          = 1209600
  maximum_message_size              = 1048576
  visibility_timeout                = 60
  receive_message_wait_time_seconds = 5
  redrive_policy = jsonencode({
    "deadLetterTargetArn" = awscc_sqs_queue.likes_dead.arn
    "maxReceiveCount"     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "notices_dead" {
  queue_name               = "${var.queue_prefix}-notices-dlq"
  message_retention_period = 1209600
  maximum_message_size     = 1048576
  sqs_managed_sse_enabled  = true
  lifecycle {
    prevent_destroy = true
  }
}

resource "awscc_sqs_queue" "notices" {
  queue_name                        = "${var.queue_prefix}-notices"
  message_retention_period          = 1209600
  maximum_message_size              = 1048576
  visibility_timeout                = 60
  receive_message_wait_time_seconds = 5
  redrive_policy = jsonencode({
    "deadLetterTargetArn" = awscc_sqs_queue.notices_dead.arn
    "maxReceiveCount"     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}

output "table_name" {
  value = awscc_dynamodb_table.table.table_name
}

output "queue_prefix" {
  value = var.queue_prefix
}
