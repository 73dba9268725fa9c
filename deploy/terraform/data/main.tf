# The table and the queues of Fanfare, which a deletion keeps.
# This file is made from deploy/cloudformation/data.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

locals {
  is_provisioned = var.billing_mode == "PROVISIONED"
  caps_writes    = var.max_write_units != 0
  caps_reads     = var.max_read_units != 0
  caps           = local.caps_writes || local.caps_reads
  warms_writes   = var.warm_write_units != 0
  warms_reads    = var.warm_read_units != 0
  warms          = local.warms_writes || local.warms_reads
}

resource "terraform_data" "rules" {
  lifecycle {
    precondition {
      condition     = var.billing_mode != "PROVISIONED" || (var.max_write_units == 0 && var.max_read_units == 0)
      error_message = "With PROVISIONED the ceilings are the ends of write_units and its kind, so set max_write_units and max_read_units to 0."
    }
    precondition {
      condition     = var.billing_mode != "PROVISIONED" || (var.write_units != null && var.read_units != null && var.index_write_units != null && var.index_read_units != null)
      error_message = "PROVISIONED needs write_units, read_units, index_write_units and index_read_units, the least and the most of each."
    }
    precondition {
      condition     = var.billing_mode != "PROVISIONED" || (var.first_write_units != 0 && var.first_read_units != 0 && var.first_index_write_units != 0 && var.first_index_read_units != 0)
      error_message = "PROVISIONED needs first_write_units, first_read_units, first_index_write_units and first_index_read_units, the units that it begins with."
    }
    precondition {
      condition     = var.billing_mode != "PROVISIONED" || (var.warm_write_units == 0 && var.warm_read_units == 0)
      error_message = "With PROVISIONED the first units warm the table, so set warm_write_units and warm_read_units to 0, which leaves a table as warm as it is."
    }
    precondition {
      condition     = var.max_write_units == 0 || (var.warm_write_units == 0 || var.warm_write_units == var.max_write_units)
      error_message = "A ceiling caps warm units that were paid for, so set warm_write_units to max_write_units, or to 0, which leaves the table as warm as it is."
    }
    precondition {
      condition     = var.max_read_units == 0 || (var.warm_read_units == 0 || var.warm_read_units == var.max_read_units)
      error_message = "A ceiling caps warm units that were paid for, so set warm_read_units to max_read_units, or to 0, which leaves the table as warm as it is."
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
    AttributeName = "PK"
    KeyType       = "HASH"
    }, {
    AttributeName = "SK"
    KeyType       = "RANGE"
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
    provisioned_throughput = local.is_provisioned ? {
      read_capacity_units  = var.first_index_read_units
      write_capacity_units = var.first_index_write_units
    } : null
    on_demand_throughput = local.caps ? {
      max_read_request_units  = local.caps_reads ? var.max_read_units : null
      max_write_request_units = local.caps_writes ? var.max_write_units : null
    } : null
    warm_throughput = local.warms ? {
      read_units_per_second  = local.warms_reads ? var.warm_read_units : 12000
      write_units_per_second = local.warms_writes ? var.warm_write_units : 4000
    } : null
  }]
  provisioned_throughput = local.is_provisioned ? {
    read_capacity_units  = var.first_read_units
    write_capacity_units = var.first_write_units
  } : null
  on_demand_throughput = local.caps ? {
    max_read_request_units  = local.caps_reads ? var.max_read_units : null
    max_write_request_units = local.caps_writes ? var.max_write_units : null
  } : null
  warm_throughput = local.warms ? {
    read_units_per_second  = local.warms_reads ? var.warm_read_units : 12000
    write_units_per_second = local.warms_writes ? var.warm_write_units : 4000
  } : null
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
  min_capacity       = var.write_units.min
  max_capacity       = var.write_units.max
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
  min_capacity       = var.read_units.min
  max_capacity       = var.read_units.max
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
  min_capacity       = var.index_write_units.min
  max_capacity       = var.index_write_units.max
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
  min_capacity       = var.index_read_units.min
  max_capacity       = var.index_read_units.max
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
    deadLetterTargetArn = awscc_sqs_queue.posts_dead.arn
    maxReceiveCount     = 1000
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
    deadLetterTargetArn = awscc_sqs_queue.backfills_dead.arn
    maxReceiveCount     = 1000
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
    deadLetterTargetArn = awscc_sqs_queue.chunks_dead.arn
    maxReceiveCount     = 1000
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
    deadLetterTargetArn = awscc_sqs_queue.likes_dead.arn
    maxReceiveCount     = 1000
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
    deadLetterTargetArn = awscc_sqs_queue.notices_dead.arn
    maxReceiveCount     = 1000
  })
  sqs_managed_sse_enabled = true
  lifecycle {
    prevent_destroy = true
  }
}
