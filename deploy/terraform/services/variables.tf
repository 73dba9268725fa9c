# This file is made from deploy/cloudformation/services.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

variable "account_id" {
  type        = string
  description = "Number of the account."
}

variable "partition" {
  type        = string
  description = "Partition of the region."
  default     = "aws"
}

variable "region" {
  type        = string
  description = "Region of the provider."
}

variable "name" {
  type        = string
  description = "Begins the names of the module's resources."
}

variable "image" {
  type        = string
  description = "The image of deploy/Dockerfile, by its digest or tag."
}

variable "table_name" {
  type        = string
  description = "FANFARE_TABLE, as in the module data."
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_.-]{3,255})$", var.table_name))
    error_message = "table_name must have 3 to 255 of A-Z a-z 0-9 . _ -."
  }
}

variable "queue_prefix" {
  type        = string
  description = "FANFARE_QUEUE_PREFIX, as in the module data."
  default     = "fanfare"
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_-]{1,60})$", var.queue_prefix))
    error_message = "queue_prefix must have 1 to 60 of A-Z a-z 0-9 _ -."
  }
}

variable "subnet_ids" {
  type        = list(string)
  description = "Subnets of two zones at least, with a way to DynamoDB, SQS, the issuer and the registry of the image."
}

variable "security_group_ids" {
  type        = list(string)
  description = "They let the load balancer reach port 8080, and scrapers port 9091."
}

variable "assign_public_ip" {
  type        = bool
  description = "true for subnets without a NAT gateway."
  default     = false
}

variable "target_group_arn" {
  type        = string
  description = "The target group of type ip of a load balancer, to port 8080, with /servez as its health check."
  validation {
    condition     = can(regex("^(?:arn:.*:targetgroup/.*)$", var.target_group_arn))
    error_message = "target_group_arn must be the ARN of a target group."
  }
}

variable "jwt_issuer" {
  type        = string
  description = "FANFARE_JWT_ISSUER."
  validation {
    condition     = can(regex("^(?:https://\\S+)$", var.jwt_issuer))
    error_message = "jwt_issuer must be an https URL."
  }
}

variable "jwt_audience" {
  type        = string
  description = "FANFARE_JWT_AUDIENCE. Several have commas between them."
  validation {
    condition     = can(regex("^(?:[^\\s,]([^,\\r\\n]*[^\\s,])?(\\s*,\\s*[^\\s,]([^,\\r\\n]*[^\\s,])?)*)$", var.jwt_audience))
    error_message = "jwt_audience must have one value, or several with a comma between them."
  }
}

variable "jwks_url" {
  type        = string
  description = "FANFARE_JWKS_URL."
  default     = ""
  validation {
    condition     = can(regex("^(?:(https://[^\\s/@]+(/\\S*)?)?)$", var.jwks_url))
    error_message = "jwks_url must be an https URL without credentials, or empty."
  }
}

variable "push_limit" {
  type        = number
  description = "FANFARE_PUSH_LIMIT. 0 delivers the posts of all authors."
  default     = 50000
  validation {
    condition     = floor(var.push_limit) == var.push_limit && 0 <= var.push_limit && var.push_limit <= 999999999999999999
    error_message = "push_limit must be a whole number from 0 to 999999999999999999."
  }
}

variable "events_queue" {
  type        = string
  description = "FANFARE_EVENTS_QUEUE, the name of a queue of this account and region. Empty sends no events."
  default     = ""
  validation {
    condition     = can(regex("^(?:[A-Za-z0-9_-]{0,80})$", var.events_queue))
    error_message = "events_queue must have up to 80 of A-Z a-z 0-9 _ -, or be empty."
  }
}

variable "environment_file_arn" {
  type        = string
  description = "The ARN of an object in S3 with further settings, a line NAME=VALUE each. Give each version of it a name of its own."
  default     = ""
  validation {
    condition     = can(regex("^(?:(arn:[a-z-]+:s3:::[^/\\s]+/\\S+\\.env)?)$", var.environment_file_arn))
    error_message = "environment_file_arn must be the ARN of an object in S3 whose name ends with .env, or empty."
  }
}

variable "drain_seconds" {
  type        = number
  description = "FANFARE_DRAIN of the api. ECS kills a task after 120 seconds, and a stop takes 30 besides."
  default     = 10
  validation {
    condition     = floor(var.drain_seconds) == var.drain_seconds && 0 <= var.drain_seconds && var.drain_seconds <= 90
    error_message = "drain_seconds must be a whole number from 0 to 90."
  }
}

variable "size" {
  type        = string
  description = "CPUs and memory of a task. Fargate has no other pairs."
  default     = "1vCPU-2GB"
  validation {
    condition     = contains(["0.5vCPU-2GB", "0.5vCPU-4GB", "1vCPU-2GB", "1vCPU-4GB", "1vCPU-8GB", "2vCPU-4GB", "2vCPU-8GB", "4vCPU-8GB", "4vCPU-16GB"], var.size)
    error_message = "size must be 0.5vCPU-2GB, 0.5vCPU-4GB, 1vCPU-2GB, 1vCPU-4GB, 1vCPU-8GB, 2vCPU-4GB, 2vCPU-8GB, 4vCPU-8GB or 4vCPU-16GB."
  }
}

variable "architecture" {
  type        = string
  description = "The architecture of the image."
  default     = "X86_64"
  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "architecture must be X86_64 or ARM64."
  }
}

variable "api_tasks" {
  type        = number
  description = "Most tasks of the api. There are always two."
  default     = 20
  validation {
    condition     = var.api_tasks >= 2
    error_message = "api_tasks must be 2 or more."
  }
}

variable "fanout_tasks" {
  type        = number
  description = "Most tasks of fanout. There are always two. The write capacity of the table bounds their use."
  default     = 20
  validation {
    condition     = var.fanout_tasks >= 2
    error_message = "fanout_tasks must be 2 or more."
  }
}

variable "likeagg_tasks" {
  type        = number
  description = "Most tasks of likeagg. There are always two. Each further one makes a like cost more."
  default     = 4
  validation {
    condition     = var.likeagg_tasks >= 2
    error_message = "likeagg_tasks must be 2 or more."
  }
}

variable "backlog_seconds" {
  type        = number
  description = "Seconds of work in a queue that the workers are scaled to."
  default     = 10
  validation {
    condition     = var.backlog_seconds >= 1
    error_message = "backlog_seconds must be 1 or more."
  }
}

variable "endpoint_vpc_id" {
  type        = string
  description = "A VPC that gets a gateway endpoint for DynamoDB, which costs nothing and spares a NAT gateway that traffic. Empty if the VPC has one."
  default     = ""
  validation {
    condition     = can(regex("^(?:(vpc-[0-9a-f]+)?)$", var.endpoint_vpc_id))
    error_message = "endpoint_vpc_id must be the id of a VPC, or empty."
  }
}

variable "endpoint_route_table_ids" {
  type        = list(string)
  description = "The route tables of the subnets, for the endpoint."
  default     = []
}
