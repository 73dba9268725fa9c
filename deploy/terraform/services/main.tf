# The daemons of Fanfare on ECS Fargate, on the table and the queues of the module data, with a role for each, autoscaling, and a canary. Their alarms are in the module alarms.
# This file is made from deploy/cloudformation/services.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

locals {
  has_events   = var.events_queue != ""
  has_file     = var.environment_file_arn != ""
  has_endpoint = var.endpoint_vpc_id != ""
  sizes = {
    "0.5vCPU-2GB" = { cpu = "512", memory = "2048", soft = "1740MiB" }
    "0.5vCPU-4GB" = { cpu = "512", memory = "4096", soft = "3480MiB" }
    "1vCPU-2GB"   = { cpu = "1024", memory = "2048", soft = "1740MiB" }
    "1vCPU-4GB"   = { cpu = "1024", memory = "4096", soft = "3480MiB" }
    "1vCPU-8GB"   = { cpu = "1024", memory = "8192", soft = "6960MiB" }
    "2vCPU-4GB"   = { cpu = "2048", memory = "4096", soft = "3480MiB" }
    "2vCPU-8GB"   = { cpu = "2048", memory = "8192", soft = "6960MiB" }
    "4vCPU-8GB"   = { cpu = "4096", memory = "8192", soft = "6960MiB" }
    "4vCPU-16GB"  = { cpu = "4096", memory = "16384", soft = "13920MiB" }
  }
}

resource "terraform_data" "rules" {
  lifecycle {
    precondition {
      condition     = var.endpoint_vpc_id == "" || length(var.endpoint_route_table_ids) > 0
      error_message = "endpoint_vpc_id needs endpoint_route_table_ids."
    }
  }
}

resource "awscc_ecs_cluster" "cluster" {
  cluster_settings = [{
    name  = "containerInsights"
    value = "enabled"
  }]
}

resource "awscc_logs_log_group" "logs" {
  retention_in_days = 30
}

# the module alarms reads these two metrics. A dead canary logs no line, and so has no metric.
resource "awscc_logs_metric_filter" "canary_passes" {
  log_group_name = awscc_logs_log_group.logs.log_group_name
  filter_pattern = "{ $.msg = \"the canary passes\" }"
  metric_transformations = [{
    metric_namespace = "Fanfare/${var.name}"
    metric_name      = "CanaryPasses"
    metric_value     = "1"
  }]
}

resource "awscc_logs_metric_filter" "failed_messages" {
  log_group_name = awscc_logs_log_group.logs.log_group_name
  filter_pattern = "{ ($.msg = \"failed, the message is redelivered\") && ($.topic = \"*\") }"
  metric_transformations = [{
    metric_namespace = "Fanfare/${var.name}"
    metric_name      = "FailedMessages"
    metric_value     = "$.lines"
    dimensions = [{
      key   = "Topic"
      value = "$.topic"
    }]
  }]
}

resource "awscc_iam_role" "execution_role" {
  assume_role_policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Principal = {
        Service = "ecs-tasks.amazonaws.com"
      }
      Action = "sts:AssumeRole"
    }]
  })
  managed_policy_arns = ["arn:${var.partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"]
  policies = local.has_file ? [{
    policy_name = "settings"
    policy_document = jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = var.environment_file_arn
        }, {
        Effect   = "Allow"
        Action   = "s3:GetBucketLocation"
        Resource = split("/", var.environment_file_arn)[0]
      }]
    })
  }] : []
}

# These policies are the output of fanfare iam policy: tests compare both.
resource "awscc_iam_managed_policy" "api_policy" {
  policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"]
      Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}"]
      }, {
      Effect   = "Allow"
      Action   = ["dynamodb:Query"]
      Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}", "arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}/index/GSI1"]
      }, {
      Effect   = "Allow"
      Action   = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
      }, {
      Effect   = "Allow"
      Action   = ["sqs:SendMessage"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts"]
    }]
  })
}

resource "awscc_iam_role" "api_role" {
  assume_role_policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Principal = {
        Service = "ecs-tasks.amazonaws.com"
      }
      Action = "sts:AssumeRole"
    }]
  })
  managed_policy_arns = [awscc_iam_managed_policy.api_policy.policy_arn]
}

# The canary acts as an api does, and its auditor scans the table.
resource "awscc_iam_role" "canary_role" {
  assume_role_policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Principal = {
        Service = "ecs-tasks.amazonaws.com"
      }
      Action = "sts:AssumeRole"
    }]
  })
  managed_policy_arns = [awscc_iam_managed_policy.api_policy.policy_arn]
  policies = [{
    policy_name = "audit"
    policy_document = jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Effect   = "Allow"
        Action   = ["dynamodb:Scan"]
        Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}"]
      }]
    })
  }]
}

resource "awscc_iam_role" "fanout_role" {
  assume_role_policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Principal = {
        Service = "ecs-tasks.amazonaws.com"
      }
      Action = "sts:AssumeRole"
    }]
  })
  policies = [{
    policy_name = "calls"
    policy_document = jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Effect   = "Allow"
        Action   = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem", "dynamodb:BatchWriteItem"]
        Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}"]
        }, {
        Effect   = "Allow"
        Action   = ["dynamodb:Query"]
        Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}", "arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}/index/GSI1"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts"]
      }]
    })
  }]
}

resource "awscc_iam_role" "likeagg_role" {
  assume_role_policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Principal = {
        Service = "ecs-tasks.amazonaws.com"
      }
      Action = "sts:AssumeRole"
    }]
  })
  policies = [{
    policy_name = "calls"
    policy_document = jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Effect   = "Allow"
        Action   = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices"]
        }, {
        Effect   = "Allow"
        Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
        Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes"]
      }]
    })
  }]
}

resource "awscc_iam_role_policy" "events_policy_fanout_role" {
  count       = local.has_events ? 1 : 0
  role_name   = awscc_iam_role.fanout_role.role_name
  policy_name = "events"
  policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["sqs:GetQueueUrl", "sqs:SendMessage"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.events_queue}"]
    }]
  })
}

resource "awscc_iam_role_policy" "events_policy_likeagg_role" {
  count       = local.has_events ? 1 : 0
  role_name   = awscc_iam_role.likeagg_role.role_name
  policy_name = "events"
  policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["sqs:GetQueueUrl", "sqs:SendMessage"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.events_queue}"]
    }]
  })
}

resource "awscc_iam_managed_policy" "operator_policy" {
  policy_document = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Scan", "dynamodb:ConditionCheckItem", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:DescribeContinuousBackups"]
      Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}"]
      }, {
      Effect   = "Allow"
      Action   = ["dynamodb:Query"]
      Resource = ["arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}", "arn:${var.partition}:dynamodb:${var.region}:${var.account_id}:table/${var.table_name}/index/GSI1"]
      }, {
      Effect   = "Allow"
      Action   = ["application-autoscaling:DescribeScalableTargets", "application-autoscaling:DescribeScalingPolicies", "cloudwatch:GetMetricData"]
      Resource = ["*"]
      }, {
      Effect   = "Allow"
      Action   = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
      }, {
      Effect   = "Allow"
      Action   = ["sqs:SendMessage"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts"]
      }, {
      Effect   = "Allow"
      Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
      Resource = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-backfills-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-chunks-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-likes-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-notices-dlq", "arn:${var.partition}:sqs:${var.region}:${var.account_id}:${var.queue_prefix}-posts-dlq"]
    }]
  })
}

resource "awscc_ecs_task_definition" "fanout_task" {
  family                   = "${var.name}-fanout"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = local.sizes[var.size].cpu
  memory                   = local.sizes[var.size].memory
  runtime_platform = {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  execution_role_arn = awscc_iam_role.execution_role.arn
  task_role_arn      = awscc_iam_role.fanout_role.arn
  container_definitions = [{
    name                     = "fanout"
    image                    = var.image
    command                  = ["fanout"]
    user                     = "65532:65532"
    readonly_root_filesystem = true
    linux_parameters = {
      capabilities = {
        drop = ["ALL"]
      }
    }
    stop_timeout = 120
    port_mappings = [{
      container_port = 9091
    }]
    health_check = {
      command      = ["CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"]
      interval     = 10
      timeout      = 5
      retries      = 3
      start_period = 60
    }
    log_configuration = {
      log_driver = "awslogs"
      options = {
        awslogs-group         = awscc_logs_log_group.logs.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "fanfare"
      }
    }
    environment_files = local.has_file ? [{
      type  = "s3"
      value = var.environment_file_arn
    }] : null
    environment = [{
      name  = "AWS_REGION"
      value = var.region
      }, {
      name  = "FANFARE_ENGINE"
      value = "aws"
      }, {
      name  = "FANFARE_TABLE"
      value = var.table_name
      }, {
      name  = "FANFARE_QUEUE_PREFIX"
      value = var.queue_prefix
      }, {
      name  = "FANFARE_METRICS_ADDR"
      value = ":9091"
      }, {
      name  = "FANFARE_PUSH_LIMIT"
      value = var.push_limit
      }, {
      name  = "FANFARE_EVENTS_QUEUE"
      value = var.events_queue
      }, {
      name  = "FANFARE_CANARY"
      value = "off"
      }, {
      name  = "FANFARE_AUDIT"
      value = "off"
      }, {
      name  = "GOMEMLIMIT"
      value = local.sizes[var.size].soft
    }]
  }]
}

# There is no DesiredCount, because an update of the stack would then undo the autoscaling.
resource "awscc_ecs_service" "fanout_service" {
  cluster         = awscc_ecs_cluster.cluster.cluster_name
  task_definition = awscc_ecs_task_definition.fanout_task.task_definition_arn
  launch_type     = "FARGATE"
  propagate_tags  = "SERVICE"
  deployment_configuration = {
    minimum_healthy_percent = 100
    maximum_percent         = 200
    deployment_circuit_breaker = {
      enable   = true
      rollback = true
    }
  }
  network_configuration = {
    awsvpc_configuration = {
      subnets          = var.subnet_ids
      security_groups  = var.security_group_ids
      assign_public_ip = var.assign_public_ip ? "ENABLED" : "DISABLED"
    }
  }
}

resource "awscc_applicationautoscaling_scalable_target" "fanout_scale" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${awscc_ecs_cluster.cluster.cluster_name}/${awscc_ecs_service.fanout_service.name}"
  min_capacity       = 2
  max_capacity       = var.fanout_tasks
}

resource "awscc_applicationautoscaling_scaling_policy" "fanout_scaling" {
  policy_name       = "${var.name}-fanout"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.fanout_scale.scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value       = var.backlog_seconds
    scale_out_cooldown = 60
    scale_in_cooldown  = 300
    customized_metric_specification = {
      metrics = [{
        id          = "v0"
        return_data = false
        metric_stat = {
          stat = "Average"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "ApproximateNumberOfMessagesVisible"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-posts"
            }]
          }
        }
        }, {
        id          = "d0"
        return_data = false
        metric_stat = {
          stat = "Sum"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "NumberOfMessagesDeleted"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-posts"
            }]
          }
        }
        }, {
        id          = "s0"
        expression  = "v0 / (d0 / 60 + 1)"
        return_data = false
        }, {
        id          = "v1"
        return_data = false
        metric_stat = {
          stat = "Average"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "ApproximateNumberOfMessagesVisible"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-backfills"
            }]
          }
        }
        }, {
        id          = "d1"
        return_data = false
        metric_stat = {
          stat = "Sum"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "NumberOfMessagesDeleted"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-backfills"
            }]
          }
        }
        }, {
        id          = "s1"
        expression  = "v1 / (d1 / 60 + 1)"
        return_data = false
        }, {
        id          = "v2"
        return_data = false
        metric_stat = {
          stat = "Average"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "ApproximateNumberOfMessagesVisible"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-chunks"
            }]
          }
        }
        }, {
        id          = "d2"
        return_data = false
        metric_stat = {
          stat = "Sum"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "NumberOfMessagesDeleted"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-chunks"
            }]
          }
        }
        }, {
        id          = "s2"
        expression  = "v2 / (d2 / 60 + 1)"
        return_data = false
        }, {
        id          = "seconds"
        label       = "seconds of backlog"
        expression  = "MAX([s0, s1, s2])"
        return_data = true
      }]
    }
  }
}

resource "awscc_ecs_task_definition" "likeagg_task" {
  family                   = "${var.name}-likeagg"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = local.sizes[var.size].cpu
  memory                   = local.sizes[var.size].memory
  runtime_platform = {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  execution_role_arn = awscc_iam_role.execution_role.arn
  task_role_arn      = awscc_iam_role.likeagg_role.arn
  container_definitions = [{
    name                     = "likeagg"
    image                    = var.image
    command                  = ["likeagg"]
    user                     = "65532:65532"
    readonly_root_filesystem = true
    linux_parameters = {
      capabilities = {
        drop = ["ALL"]
      }
    }
    stop_timeout = 120
    port_mappings = [{
      container_port = 9091
    }]
    health_check = {
      command      = ["CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"]
      interval     = 10
      timeout      = 5
      retries      = 3
      start_period = 60
    }
    log_configuration = {
      log_driver = "awslogs"
      options = {
        awslogs-group         = awscc_logs_log_group.logs.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "fanfare"
      }
    }
    environment_files = local.has_file ? [{
      type  = "s3"
      value = var.environment_file_arn
    }] : null
    environment = [{
      name  = "AWS_REGION"
      value = var.region
      }, {
      name  = "FANFARE_ENGINE"
      value = "aws"
      }, {
      name  = "FANFARE_TABLE"
      value = var.table_name
      }, {
      name  = "FANFARE_QUEUE_PREFIX"
      value = var.queue_prefix
      }, {
      name  = "FANFARE_METRICS_ADDR"
      value = ":9091"
      }, {
      name  = "FANFARE_PUSH_LIMIT"
      value = var.push_limit
      }, {
      name  = "FANFARE_EVENTS_QUEUE"
      value = var.events_queue
      }, {
      name  = "FANFARE_CANARY"
      value = "off"
      }, {
      name  = "FANFARE_AUDIT"
      value = "off"
      }, {
      name  = "GOMEMLIMIT"
      value = local.sizes[var.size].soft
    }]
  }]
}

resource "awscc_ecs_service" "likeagg_service" {
  cluster         = awscc_ecs_cluster.cluster.cluster_name
  task_definition = awscc_ecs_task_definition.likeagg_task.task_definition_arn
  launch_type     = "FARGATE"
  propagate_tags  = "SERVICE"
  deployment_configuration = {
    minimum_healthy_percent = 100
    maximum_percent         = 200
    deployment_circuit_breaker = {
      enable   = true
      rollback = true
    }
  }
  network_configuration = {
    awsvpc_configuration = {
      subnets          = var.subnet_ids
      security_groups  = var.security_group_ids
      assign_public_ip = var.assign_public_ip ? "ENABLED" : "DISABLED"
    }
  }
}

resource "awscc_applicationautoscaling_scalable_target" "likeagg_scale" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${awscc_ecs_cluster.cluster.cluster_name}/${awscc_ecs_service.likeagg_service.name}"
  min_capacity       = 2
  max_capacity       = var.likeagg_tasks
}

resource "awscc_applicationautoscaling_scaling_policy" "likeagg_scaling" {
  policy_name       = "${var.name}-likeagg"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.likeagg_scale.scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value       = var.backlog_seconds
    scale_out_cooldown = 60
    scale_in_cooldown  = 300
    customized_metric_specification = {
      metrics = [{
        id          = "v0"
        return_data = false
        metric_stat = {
          stat = "Average"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "ApproximateNumberOfMessagesVisible"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-likes"
            }]
          }
        }
        }, {
        id          = "d0"
        return_data = false
        metric_stat = {
          stat = "Sum"
          metric = {
            namespace   = "AWS/SQS"
            metric_name = "NumberOfMessagesDeleted"
            dimensions = [{
              name  = "QueueName"
              value = "${var.queue_prefix}-likes"
            }]
          }
        }
        }, {
        id          = "seconds"
        label       = "seconds of backlog"
        expression  = "v0 / (d0 / 60 + 1)"
        return_data = true
      }]
    }
  }
}

resource "awscc_ecs_task_definition" "api_task" {
  family                   = "${var.name}-api"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = local.sizes[var.size].cpu
  memory                   = local.sizes[var.size].memory
  runtime_platform = {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  execution_role_arn = awscc_iam_role.execution_role.arn
  task_role_arn      = awscc_iam_role.api_role.arn
  container_definitions = [{
    name                     = "api"
    image                    = var.image
    command                  = ["api"]
    user                     = "65532:65532"
    readonly_root_filesystem = true
    linux_parameters = {
      capabilities = {
        drop = ["ALL"]
      }
    }
    stop_timeout = 120
    port_mappings = [{
      container_port = 8080
      }, {
      container_port = 9091
    }]
    health_check = {
      command      = ["CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"]
      interval     = 10
      timeout      = 5
      retries      = 3
      start_period = 60
    }
    log_configuration = {
      log_driver = "awslogs"
      options = {
        awslogs-group         = awscc_logs_log_group.logs.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "fanfare"
      }
    }
    environment_files = local.has_file ? [{
      type  = "s3"
      value = var.environment_file_arn
    }] : null
    environment = [{
      name  = "AWS_REGION"
      value = var.region
      }, {
      name  = "FANFARE_ENGINE"
      value = "aws"
      }, {
      name  = "FANFARE_TABLE"
      value = var.table_name
      }, {
      name  = "FANFARE_QUEUE_PREFIX"
      value = var.queue_prefix
      }, {
      name  = "FANFARE_METRICS_ADDR"
      value = ":9091"
      }, {
      name  = "FANFARE_PUSH_LIMIT"
      value = var.push_limit
      }, {
      name  = "FANFARE_EVENTS_QUEUE"
      value = var.events_queue
      }, {
      name  = "FANFARE_CANARY"
      value = "off"
      }, {
      name  = "FANFARE_AUDIT"
      value = "off"
      }, {
      name  = "GOMEMLIMIT"
      value = local.sizes[var.size].soft
      }, {
      name  = "FANFARE_HTTP_ADDR"
      value = ":8080"
      }, {
      name  = "FANFARE_DRAIN"
      value = "${var.drain_seconds}s"
      }, {
      name  = "FANFARE_AUTH"
      value = "jwt"
      }, {
      name  = "FANFARE_JWT_ISSUER"
      value = var.jwt_issuer
      }, {
      name  = "FANFARE_JWT_AUDIENCE"
      value = var.jwt_audience
      }, {
      name  = "FANFARE_JWKS_URL"
      value = var.jwks_url
    }]
  }]
}

resource "awscc_ecs_service" "api_service" {
  cluster         = awscc_ecs_cluster.cluster.cluster_name
  task_definition = awscc_ecs_task_definition.api_task.task_definition_arn
  launch_type     = "FARGATE"
  propagate_tags  = "SERVICE"
  deployment_configuration = {
    minimum_healthy_percent = 100
    maximum_percent         = 200
    deployment_circuit_breaker = {
      enable   = true
      rollback = true
    }
  }
  network_configuration = {
    awsvpc_configuration = {
      subnets          = var.subnet_ids
      security_groups  = var.security_group_ids
      assign_public_ip = var.assign_public_ip ? "ENABLED" : "DISABLED"
    }
  }
  load_balancers = [{
    container_name   = "api"
    container_port   = 8080
    target_group_arn = var.target_group_arn
  }]
  health_check_grace_period_seconds = 60
  depends_on                        = [awscc_ecs_service.fanout_service, awscc_ecs_service.likeagg_service]
}

resource "awscc_applicationautoscaling_scalable_target" "api_scale" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${awscc_ecs_cluster.cluster.cluster_name}/${awscc_ecs_service.api_service.name}"
  min_capacity       = 2
  max_capacity       = var.api_tasks
}

resource "awscc_applicationautoscaling_scaling_policy" "api_scaling" {
  policy_name       = "${var.name}-api"
  policy_type       = "TargetTrackingScaling"
  scaling_target_id = awscc_applicationautoscaling_scalable_target.api_scale.scalable_target_id
  target_tracking_scaling_policy_configuration = {
    target_value       = 60
    scale_out_cooldown = 60
    scale_in_cooldown  = 300
    predefined_metric_specification = {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

# This api is not behind the balancer: it posts, reads, likes and audits. A second one costs as much and
# shows nothing more.
resource "awscc_ecs_task_definition" "canary_task" {
  family                   = "${var.name}-canary"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = "256"
  memory                   = "1024"
  runtime_platform = {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  execution_role_arn = awscc_iam_role.execution_role.arn
  task_role_arn      = awscc_iam_role.canary_role.arn
  container_definitions = [{
    name                     = "canary"
    image                    = var.image
    command                  = ["api"]
    user                     = "65532:65532"
    readonly_root_filesystem = true
    linux_parameters = {
      capabilities = {
        drop = ["ALL"]
      }
    }
    stop_timeout = 120
    port_mappings = [{
      container_port = 9091
    }]
    health_check = {
      command      = ["CMD", "fanfare", "health", "--url", "http://127.0.0.1:9091/healthz"]
      interval     = 10
      timeout      = 5
      retries      = 3
      start_period = 60
    }
    log_configuration = {
      log_driver = "awslogs"
      options = {
        awslogs-group         = awscc_logs_log_group.logs.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "fanfare"
      }
    }
    environment_files = local.has_file ? [{
      type  = "s3"
      value = var.environment_file_arn
    }] : null
    environment = [{
      name  = "AWS_REGION"
      value = var.region
      }, {
      name  = "FANFARE_ENGINE"
      value = "aws"
      }, {
      name  = "FANFARE_TABLE"
      value = var.table_name
      }, {
      name  = "FANFARE_QUEUE_PREFIX"
      value = var.queue_prefix
      }, {
      name  = "FANFARE_METRICS_ADDR"
      value = ":9091"
      }, {
      name  = "FANFARE_PUSH_LIMIT"
      value = var.push_limit
      }, {
      name  = "FANFARE_EVENTS_QUEUE"
      value = var.events_queue
      }, {
      name  = "FANFARE_CANARY"
      value = "on"
      }, {
      name  = "FANFARE_AUDIT"
      value = "on"
      }, {
      name  = "GOMEMLIMIT"
      value = "870MiB"
      }, {
      name  = "FANFARE_LOG_LEVEL"
      value = "info"
      }, {
      name  = "FANFARE_HTTP_ADDR"
      value = "127.0.0.1:8080"
      }, {
      name  = "FANFARE_DRAIN"
      value = "0s"
      }, {
      name  = "FANFARE_AUTH"
      value = "jwt"
      }, {
      name  = "FANFARE_JWT_ISSUER"
      value = var.jwt_issuer
      }, {
      name  = "FANFARE_JWT_AUDIENCE"
      value = var.jwt_audience
      }, {
      name  = "FANFARE_JWKS_URL"
      value = var.jwks_url
    }]
  }]
}

resource "awscc_ecs_service" "canary_service" {
  cluster         = awscc_ecs_cluster.cluster.cluster_name
  task_definition = awscc_ecs_task_definition.canary_task.task_definition_arn
  desired_count   = 1
  launch_type     = "FARGATE"
  propagate_tags  = "SERVICE"
  deployment_configuration = {
    minimum_healthy_percent = 100
    maximum_percent         = 200
    deployment_circuit_breaker = {
      enable   = true
      rollback = true
    }
  }
  network_configuration = {
    awsvpc_configuration = {
      subnets          = var.subnet_ids
      security_groups  = var.security_group_ids
      assign_public_ip = var.assign_public_ip ? "ENABLED" : "DISABLED"
    }
  }
  depends_on = [awscc_ecs_service.fanout_service, awscc_ecs_service.likeagg_service]
}

resource "awscc_ec2_vpc_endpoint" "dynamo_db_endpoint" {
  count             = local.has_endpoint ? 1 : 0
  vpc_endpoint_type = "Gateway"
  vpc_id            = var.endpoint_vpc_id
  route_table_ids   = var.endpoint_route_table_ids
  service_name      = "com.amazonaws.${var.region}.dynamodb"
}
