# The alarms of Fanfare in CloudWatch, and a dashboard. docs/DEPLOY.md has when each fires.
# This file is made from deploy/cloudformation/alarms.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

locals {
  notify       = var.alarm_topic_arn != ""
  has_services = var.services != null
  has_balancer = var.load_balancer_arn != ""
}

resource "terraform_data" "rules" {
  lifecycle {
    precondition {
      condition     = var.load_balancer_arn == "" || var.target_group_arn != ""
      error_message = "load_balancer_arn needs target_group_arn."
    }
  }
}

resource "awscc_cloudwatch_alarm" "posts_dead_letters" {
  alarm_description = "Messages of posts became dead letters (docs/OPERATIONS.md, Dead letters)"
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions = [{
    name  = "QueueName"
    value = "${var.queue_prefix}-posts-dlq"
  }]
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# Delayed messages are not work. They wait by design (docs/decisions/0040) or after a failure (see
# posts_fail).
resource "awscc_cloudwatch_alarm" "posts_stuck" {
  alarm_description = "Messages of posts are work, and none was finished for eight minutes (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "f"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-posts"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "messages without a worker"
    expression = "IF(FILL(d, 0) < 1, FILL(v, 0) + FILL(f, 0), 0)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# Seconds of work in the queue, while some of it is finished. ApproximateAgeOfOldestMessage omits a
# message after its third receive, and begins at 0 with each copy (docs/decisions/0041).
resource "awscc_cloudwatch_alarm" "posts_late" {
  alarm_description = "Messages of posts are work for more than four minutes (docs/OPERATIONS.md, Messages late)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "seconds of work"
    expression = "IF(FILL(d, 0) > 0, 60 * FILL(v, 0) / FILL(d, 0), 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 240
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# A copy replaces a message that failed, so a queue whose messages all fail has deletions. The daemons
# log each failure.
resource "awscc_cloudwatch_alarm" "posts_fail" {
  count             = local.has_services ? 1 : 0
  alarm_description = "More than a quarter of the messages of posts fail and come again (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "n"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "FailedMessages"
        dimensions = [{
          name  = "Topic"
          value = "posts"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "% of messages that fail"
    expression = "100 * FILL(n, 0) / (FILL(n, 0) + FILL(d, 0) + 1)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 25
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "backfills_dead_letters" {
  alarm_description = "Messages of backfills became dead letters (docs/OPERATIONS.md, Dead letters)"
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions = [{
    name  = "QueueName"
    value = "${var.queue_prefix}-backfills-dlq"
  }]
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "backfills_stuck" {
  alarm_description = "Messages of backfills are work, and none was finished for eight minutes (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "f"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-backfills"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "messages without a worker"
    expression = "IF(FILL(d, 0) < 1, FILL(v, 0) + FILL(f, 0), 0)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "backfills_late" {
  alarm_description = "Messages of backfills are work for more than four minutes (docs/OPERATIONS.md, Messages late)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "seconds of work"
    expression = "IF(FILL(d, 0) > 0, 60 * FILL(v, 0) / FILL(d, 0), 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 240
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "backfills_fail" {
  count             = local.has_services ? 1 : 0
  alarm_description = "More than a quarter of the messages of backfills fail and come again (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "n"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "FailedMessages"
        dimensions = [{
          name  = "Topic"
          value = "backfills"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "% of messages that fail"
    expression = "100 * FILL(n, 0) / (FILL(n, 0) + FILL(d, 0) + 1)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 25
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "chunks_dead_letters" {
  alarm_description = "Messages of chunks became dead letters (docs/OPERATIONS.md, Dead letters)"
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions = [{
    name  = "QueueName"
    value = "${var.queue_prefix}-chunks-dlq"
  }]
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "chunks_stuck" {
  alarm_description = "Messages of chunks are work, and none was finished for eight minutes (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "f"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-chunks"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "messages without a worker"
    expression = "IF(FILL(d, 0) < 1, FILL(v, 0) + FILL(f, 0), 0)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "chunks_late" {
  alarm_description = "Messages of chunks are work for more than four minutes (docs/OPERATIONS.md, Messages late)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "seconds of work"
    expression = "IF(FILL(d, 0) > 0, 60 * FILL(v, 0) / FILL(d, 0), 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 240
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "chunks_fail" {
  count             = local.has_services ? 1 : 0
  alarm_description = "More than a quarter of the messages of chunks fail and come again (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "n"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "FailedMessages"
        dimensions = [{
          name  = "Topic"
          value = "chunks"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "% of messages that fail"
    expression = "100 * FILL(n, 0) / (FILL(n, 0) + FILL(d, 0) + 1)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 25
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "likes_dead_letters" {
  alarm_description = "Messages of likes became dead letters (docs/OPERATIONS.md, Dead letters)"
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions = [{
    name  = "QueueName"
    value = "${var.queue_prefix}-likes-dlq"
  }]
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "likes_stuck" {
  alarm_description = "Messages of likes are work, and none was finished for eight minutes (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "f"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-likes"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "messages without a worker"
    expression = "IF(FILL(d, 0) < 1, FILL(v, 0) + FILL(f, 0), 0)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "likes_late" {
  alarm_description = "Messages of likes are work for more than four minutes (docs/OPERATIONS.md, Messages late)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
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
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "seconds of work"
    expression = "IF(FILL(d, 0) > 0, 60 * FILL(v, 0) / FILL(d, 0), 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 240
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "likes_fail" {
  count             = local.has_services ? 1 : 0
  alarm_description = "More than a quarter of the messages of likes fail and come again (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "n"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "FailedMessages"
        dimensions = [{
          name  = "Topic"
          value = "likes"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
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
    id         = "value"
    label      = "% of messages that fail"
    expression = "100 * FILL(n, 0) / (FILL(n, 0) + FILL(d, 0) + 1)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 25
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "notices_dead_letters" {
  alarm_description = "Messages of notices became dead letters (docs/OPERATIONS.md, Dead letters)"
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions = [{
    name  = "QueueName"
    value = "${var.queue_prefix}-notices-dlq"
  }]
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "notices_stuck" {
  alarm_description = "Messages of notices are work, and none was finished for eight minutes (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id          = "f"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "NumberOfMessagesDeleted"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "messages without a worker"
    expression = "IF(FILL(d, 0) < 1, FILL(v, 0) + FILL(f, 0), 0)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "notices_late" {
  alarm_description = "Messages of notices are work for more than four minutes (docs/OPERATIONS.md, Messages late)"
  metrics = [{
    id          = "v"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "NumberOfMessagesDeleted"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "seconds of work"
    expression = "IF(FILL(d, 0) > 0, 60 * FILL(v, 0) / FILL(d, 0), 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 240
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "notices_fail" {
  count             = local.has_services ? 1 : 0
  alarm_description = "More than a quarter of the messages of notices fail and come again (docs/OPERATIONS.md, Queue stuck)"
  metrics = [{
    id          = "n"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "FailedMessages"
        dimensions = [{
          name  = "Topic"
          value = "notices"
        }]
      }
    }
    }, {
    id          = "d"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "NumberOfMessagesDeleted"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "% of messages that fail"
    expression = "100 * FILL(n, 0) / (FILL(n, 0) + FILL(d, 0) + 1)"
  }]
  evaluation_periods  = 10
  datapoints_to_alarm = 8
  comparison_operator = "GreaterThanThreshold"
  threshold           = 25
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# SQS delivers no message of a queue with some 120,000 messages in flight.
resource "awscc_cloudwatch_alarm" "messages_in_flight" {
  alarm_description = "A queue has more than 80,000 messages in flight (docs/OPERATIONS.md, Messages in flight)"
  metrics = [{
    id          = "posts"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-posts"
        }]
      }
    }
    }, {
    id          = "backfills"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-backfills"
        }]
      }
    }
    }, {
    id          = "chunks"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-chunks"
        }]
      }
    }
    }, {
    id          = "likes"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-likes"
        }]
      }
    }
    }, {
    id          = "notices"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesNotVisible"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "messages of one queue"
    expression = "MAX([FILL(posts, 0), FILL(backfills, 0), FILL(chunks, 0), FILL(likes, 0), FILL(notices, 0)])"
  }]
  evaluation_periods  = 3
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 80000
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "messages_delayed" {
  alarm_description = "A queue has more than 100,000 delayed messages (docs/OPERATIONS.md, Messages delayed)"
  metrics = [{
    id          = "posts"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesDelayed"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-posts"
        }]
      }
    }
    }, {
    id          = "backfills"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesDelayed"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-backfills"
        }]
      }
    }
    }, {
    id          = "chunks"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesDelayed"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-chunks"
        }]
      }
    }
    }, {
    id          = "likes"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesDelayed"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-likes"
        }]
      }
    }
    }, {
    id          = "notices"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesDelayed"
        dimensions = [{
          name  = "QueueName"
          value = "${var.queue_prefix}-notices"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "messages of one queue"
    expression = "MAX([FILL(posts, 0), FILL(backfills, 0), FILL(chunks, 0), FILL(likes, 0), FILL(notices, 0)])"
  }]
  evaluation_periods  = 15
  datapoints_to_alarm = 13
  comparison_operator = "GreaterThanThreshold"
  threshold           = 100000
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# The canary logs its success every 30 seconds. This alarm also covers its task and its start.
resource "awscc_cloudwatch_alarm" "canary_silent" {
  count             = local.has_services ? 1 : 0
  alarm_description = "The canary has not passed for five minutes, so posts or likes do not work (docs/OPERATIONS.md, The canary)"
  metrics = [{
    id          = "passes"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "Fanfare/${var.services.name}"
        metric_name = "CanaryPasses"
      }
    }
    }, {
    id         = "value"
    label      = "passes"
    expression = "FILL(passes, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# ECS has CPUUtilization of running tasks only, even without Container Insights.
resource "awscc_cloudwatch_alarm" "no_api" {
  count             = local.has_services ? 1 : 0
  alarm_description = "No task of api runs (docs/DEPLOY.md, No tasks)"
  metrics = [{
    id          = "tasks"
    return_data = false
    metric_stat = {
      stat   = "SampleCount"
      period = 60
      metric = {
        namespace   = "AWS/ECS"
        metric_name = "CPUUtilization"
        dimensions = [{
          name  = "ClusterName"
          value = "${var.services.name}-cluster"
          }, {
          name  = "ServiceName"
          value = "${var.services.name}-api"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "samples of tasks"
    expression = "FILL(tasks, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "no_fanout" {
  count             = local.has_services ? 1 : 0
  alarm_description = "No task of fanout runs (docs/DEPLOY.md, No tasks)"
  metrics = [{
    id          = "tasks"
    return_data = false
    metric_stat = {
      stat   = "SampleCount"
      period = 60
      metric = {
        namespace   = "AWS/ECS"
        metric_name = "CPUUtilization"
        dimensions = [{
          name  = "ClusterName"
          value = "${var.services.name}-cluster"
          }, {
          name  = "ServiceName"
          value = "${var.services.name}-fanout"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "samples of tasks"
    expression = "FILL(tasks, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "no_likeagg" {
  count             = local.has_services ? 1 : 0
  alarm_description = "No task of likeagg runs (docs/DEPLOY.md, No tasks)"
  metrics = [{
    id          = "tasks"
    return_data = false
    metric_stat = {
      stat   = "SampleCount"
      period = 60
      metric = {
        namespace   = "AWS/ECS"
        metric_name = "CPUUtilization"
        dimensions = [{
          name  = "ClusterName"
          value = "${var.services.name}-cluster"
          }, {
          name  = "ServiceName"
          value = "${var.services.name}-likeagg"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "samples of tasks"
    expression = "FILL(tasks, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "target_errors" {
  count             = local.has_balancer ? 1 : 0
  alarm_description = "The api answers more than one request in a hundred with 5xx (docs/OPERATIONS.md, Server errors)"
  metrics = [{
    id          = "e"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/ApplicationELB"
        metric_name = "HTTPCode_Target_5XX_Count"
        dimensions = [{
          name  = "LoadBalancer"
          value = split("loadbalancer/", var.load_balancer_arn)[1]
          }, {
          name  = "TargetGroup"
          value = split(":", var.target_group_arn)[5]
        }]
      }
    }
    }, {
    id          = "r"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/ApplicationELB"
        metric_name = "RequestCount"
        dimensions = [{
          name  = "LoadBalancer"
          value = split("loadbalancer/", var.load_balancer_arn)[1]
          }, {
          name  = "TargetGroup"
          value = split(":", var.target_group_arn)[5]
        }]
      }
    }
    }, {
    id         = "value"
    label      = "% of requests"
    expression = "100 * FILL(e, 0) / (FILL(r, 0) + 1)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# RequestCount leaves out requests for which the balancer has no target.
resource "awscc_cloudwatch_alarm" "balancer_errors" {
  count             = local.has_balancer ? 1 : 0
  alarm_description = "The balancer itself answers more than one request in a hundred with 5xx (docs/DEPLOY.md, Balancer errors)"
  metrics = [{
    id          = "e"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/ApplicationELB"
        metric_name = "HTTPCode_ELB_5XX_Count"
        dimensions = [{
          name  = "LoadBalancer"
          value = split("loadbalancer/", var.load_balancer_arn)[1]
        }]
      }
    }
    }, {
    id          = "r"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/ApplicationELB"
        metric_name = "RequestCount"
        dimensions = [{
          name  = "LoadBalancer"
          value = split("loadbalancer/", var.load_balancer_arn)[1]
        }]
      }
    }
    }, {
    id         = "value"
    label      = "% of requests"
    expression = "100 * FILL(e, 0) / (FILL(r, 0) + FILL(e, 0) + 1)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "targets_unhealthy" {
  count             = local.has_balancer ? 1 : 0
  alarm_description = "The balancer finds a task of api unhealthy (docs/DEPLOY.md, Unhealthy targets)"
  metrics = [{
    id          = "u"
    return_data = false
    metric_stat = {
      stat   = "Maximum"
      period = 60
      metric = {
        namespace   = "AWS/ApplicationELB"
        metric_name = "UnHealthyHostCount"
        dimensions = [{
          name  = "LoadBalancer"
          value = split("loadbalancer/", var.load_balancer_arn)[1]
          }, {
          name  = "TargetGroup"
          value = split(":", var.target_group_arn)[5]
        }]
      }
    }
    }, {
    id         = "value"
    label      = "targets"
    expression = "FILL(u, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "answers_slow" {
  count             = local.has_balancer ? 1 : 0
  alarm_description = "One request in a hundred takes more than two seconds (docs/DEPLOY.md, Slow answers)"
  namespace         = "AWS/ApplicationELB"
  metric_name       = "TargetResponseTime"
  dimensions = [{
    name  = "LoadBalancer"
    value = split("loadbalancer/", var.load_balancer_arn)[1]
    }, {
    name  = "TargetGroup"
    value = split(":", var.target_group_arn)[5]
  }]
  extended_statistic                   = "p99"
  evaluate_low_sample_count_percentile = "ignore"
  period                               = 60
  evaluation_periods                   = 15
  datapoints_to_alarm                  = 10
  comparison_operator                  = "GreaterThanThreshold"
  threshold                            = 2
  treat_missing_data                   = "notBreaching"
  alarm_actions                        = local.notify ? [var.alarm_topic_arn] : []
  ok_actions                           = local.notify ? [var.alarm_topic_arn] : []
}

# DynamoDB splits a full partition after some minutes: only a partition that stays full needs people.
# ReadThrottleEvents and WriteThrottleEvents are the sums of these four reasons.
resource "awscc_cloudwatch_alarm" "reads_over_partition" {
  alarm_description = "DynamoDB refuses reads because one partition of the table or of its index is full (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadKeyRangeThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadKeyRangeThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 15
  datapoints_to_alarm = 10
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "reads_over_account" {
  alarm_description = "DynamoDB refuses reads because the quota of the account for a table is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadAccountLimitThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadAccountLimitThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "reads_over_maximum" {
  alarm_description = "DynamoDB refuses reads because the maximum that was set for the table or its index is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadMaxOnDemandThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadMaxOnDemandThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "reads_over_provisioned" {
  alarm_description = "DynamoDB refuses reads because the provisioned capacity of the table or of its index is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadProvisionedThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "ReadProvisionedThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "writes_over_partition" {
  alarm_description = "DynamoDB refuses writes because one partition of the table or of its index is full (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteKeyRangeThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteKeyRangeThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 15
  datapoints_to_alarm = 10
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "writes_over_account" {
  alarm_description = "DynamoDB refuses writes because the quota of the account for a table is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteAccountLimitThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteAccountLimitThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "writes_over_maximum" {
  alarm_description = "DynamoDB refuses writes because the maximum that was set for the table or its index is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteMaxOnDemandThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteMaxOnDemandThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_alarm" "writes_over_provisioned" {
  alarm_description = "DynamoDB refuses writes because the provisioned capacity of the table or of its index is used up (docs/OPERATIONS.md, Table throttles)"
  metrics = [{
    id          = "t"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteProvisionedThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
        }]
      }
    }
    }, {
    id          = "i"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "WriteProvisionedThroughputThrottleEvents"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "GlobalSecondaryIndexName"
          value = "GSI1"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "refused"
    expression = "FILL(t, 0) + FILL(i, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

# The metric has both dimensions only. A few errors an hour are ordinary.
resource "awscc_cloudwatch_alarm" "table_errors" {
  alarm_description = "DynamoDB answers more than ten calls a minute with an error of its own (docs/DEPLOY.md, Table errors)"
  metrics = [{
    id          = "get"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "GetItem"
        }]
      }
    }
    }, {
    id          = "batchget"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "BatchGetItem"
        }]
      }
    }
    }, {
    id          = "query"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "Query"
        }]
      }
    }
    }, {
    id          = "scan"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "Scan"
        }]
      }
    }
    }, {
    id          = "put"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "PutItem"
        }]
      }
    }
    }, {
    id          = "update"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "UpdateItem"
        }]
      }
    }
    }, {
    id          = "delete"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "DeleteItem"
        }]
      }
    }
    }, {
    id          = "batchwrite"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "BatchWriteItem"
        }]
      }
    }
    }, {
    id          = "transact"
    return_data = false
    metric_stat = {
      stat   = "Sum"
      period = 60
      metric = {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions = [{
          name  = "TableName"
          value = var.table_name
          }, {
          name  = "Operation"
          value = "TransactWriteItems"
        }]
      }
    }
    }, {
    id         = "value"
    label      = "errors"
    expression = "FILL(get, 0) + FILL(batchget, 0) + FILL(query, 0) + FILL(scan, 0) + FILL(put, 0) + FILL(update, 0) + FILL(delete, 0) + FILL(batchwrite, 0) + FILL(transact, 0)"
  }]
  evaluation_periods  = 7
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 10
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.notify ? [var.alarm_topic_arn] : []
  ok_actions          = local.notify ? [var.alarm_topic_arn] : []
}

resource "awscc_cloudwatch_dashboard" "dashboard" {
  dashboard_name = var.name
  dashboard_body = <<EOT
{"widgets": [
  {"type": "metric", "x": 0, "y": 0, "width": 12, "height": 6, "properties": {"title": "Messages that may be received", "region": "${var.region}", "period": 60, "stat": "Maximum", "metrics": [
    ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${var.queue_prefix}-posts", {"label": "posts"}],
    [".", ".", ".", "${var.queue_prefix}-backfills", {"label": "backfills"}],
    [".", ".", ".", "${var.queue_prefix}-chunks", {"label": "chunks"}],
    [".", ".", ".", "${var.queue_prefix}-likes", {"label": "likes"}],
    [".", ".", ".", "${var.queue_prefix}-notices", {"label": "notices"}]
  ]}},
  {"type": "metric", "x": 12, "y": 0, "width": 12, "height": 6, "properties": {"title": "Messages in flight", "region": "${var.region}", "period": 60, "stat": "Maximum", "metrics": [
    ["AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "QueueName", "${var.queue_prefix}-posts", {"label": "posts"}],
    [".", ".", ".", "${var.queue_prefix}-backfills", {"label": "backfills"}],
    [".", ".", ".", "${var.queue_prefix}-chunks", {"label": "chunks"}],
    [".", ".", ".", "${var.queue_prefix}-likes", {"label": "likes"}],
    [".", ".", ".", "${var.queue_prefix}-notices", {"label": "notices"}]
  ]}},
  {"type": "metric", "x": 0, "y": 6, "width": 12, "height": 6, "properties": {"title": "Messages finished, copies of those that wait included", "region": "${var.region}", "period": 60, "stat": "Sum", "metrics": [
    ["AWS/SQS", "NumberOfMessagesDeleted", "QueueName", "${var.queue_prefix}-posts", {"label": "posts"}],
    [".", ".", ".", "${var.queue_prefix}-backfills", {"label": "backfills"}],
    [".", ".", ".", "${var.queue_prefix}-chunks", {"label": "chunks"}],
    [".", ".", ".", "${var.queue_prefix}-likes", {"label": "likes"}],
    [".", ".", ".", "${var.queue_prefix}-notices", {"label": "notices"}]
  ]}},
  {"type": "metric", "x": 12, "y": 6, "width": 12, "height": 6, "properties": {"title": "Messages delayed", "region": "${var.region}", "period": 60, "stat": "Maximum", "metrics": [
    ["AWS/SQS", "ApproximateNumberOfMessagesDelayed", "QueueName", "${var.queue_prefix}-posts", {"label": "posts"}],
    [".", ".", ".", "${var.queue_prefix}-backfills", {"label": "backfills"}],
    [".", ".", ".", "${var.queue_prefix}-chunks", {"label": "chunks"}],
    [".", ".", ".", "${var.queue_prefix}-likes", {"label": "likes"}],
    [".", ".", ".", "${var.queue_prefix}-notices", {"label": "notices"}]
  ]}},
  {"type": "metric", "x": 0, "y": 12, "width": 12, "height": 6, "properties": {"title": "Dead letters", "region": "${var.region}", "period": 60, "stat": "Maximum", "metrics": [
    ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${var.queue_prefix}-posts-dlq", {"label": "posts"}],
    [".", ".", ".", "${var.queue_prefix}-backfills-dlq", {"label": "backfills"}],
    [".", ".", ".", "${var.queue_prefix}-chunks-dlq", {"label": "chunks"}],
    [".", ".", ".", "${var.queue_prefix}-likes-dlq", {"label": "likes"}],
    [".", ".", ".", "${var.queue_prefix}-notices-dlq", {"label": "notices"}]
  ]}},
  {"type": "metric", "x": 12, "y": 12, "width": 12, "height": 6, "properties": {"title": "Capacity units", "region": "${var.region}", "period": 60, "stat": "Sum", "metrics": [
    ["AWS/DynamoDB", "ConsumedReadCapacityUnits", "TableName", "${var.table_name}", {"label": "reads of the table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "reads of the index"}],
    ["AWS/DynamoDB", "ConsumedWriteCapacityUnits", "TableName", "${var.table_name}", {"label": "writes of the table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "writes of the index"}]
  ]}},
  {"type": "metric", "x": 0, "y": 18, "width": 12, "height": 6, "properties": {"title": "Refused reads", "region": "${var.region}", "period": 60, "stat": "Sum", "metrics": [
    ["AWS/DynamoDB", "ReadKeyRangeThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "partition, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "partition, index"}],
    ["AWS/DynamoDB", "ReadAccountLimitThrottleEvents", "TableName", "${var.table_name}", {"label": "account, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "account, index"}],
    ["AWS/DynamoDB", "ReadMaxOnDemandThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "maximum, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "maximum, index"}],
    ["AWS/DynamoDB", "ReadProvisionedThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "provisioned, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "provisioned, index"}]
  ]}},
  {"type": "metric", "x": 12, "y": 18, "width": 12, "height": 6, "properties": {"title": "Refused writes", "region": "${var.region}", "period": 60, "stat": "Sum", "metrics": [
    ["AWS/DynamoDB", "WriteKeyRangeThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "partition, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "partition, index"}],
    ["AWS/DynamoDB", "WriteAccountLimitThrottleEvents", "TableName", "${var.table_name}", {"label": "account, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "account, index"}],
    ["AWS/DynamoDB", "WriteMaxOnDemandThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "maximum, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "maximum, index"}],
    ["AWS/DynamoDB", "WriteProvisionedThroughputThrottleEvents", "TableName", "${var.table_name}", {"label": "provisioned, table"}],
    [".", ".", ".", "${var.table_name}", "GlobalSecondaryIndexName", "GSI1", {"label": "provisioned, index"}]
  ]}}
]}
EOT

}
