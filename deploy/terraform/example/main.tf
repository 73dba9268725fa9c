# All of Fanfare in one account: the table and the queues, the daemons on ECS Fargate, and their alarms. The network, the
# load balancer and the image exist already (docs/DEPLOY.md).
terraform {
  required_version = ">= 1.5"
  required_providers {
    awscc = {
      source  = "hashicorp/awscc"
      version = "~> 1.106"
    }
  }
}

provider "awscc" {
  region = var.region
}

variable "region" {
  type        = string
  description = "Region of all resources."
}

variable "account_id" {
  type        = string
  description = "Number of the account."
}

variable "image" {
  type        = string
  description = "The image of deploy/Dockerfile, by its digest or tag."
}

variable "jwt" {
  type        = object({ issuer = string, audience = string })
  description = "The iss and the aud of the tokens."
}

variable "network" {
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  description = "Subnets of two zones at least, and the security groups of the tasks."
}

variable "balancer" {
  type        = object({ load_balancer_arn = string, target_group_arn = string })
  description = "An Application Load Balancer, and its target group of type ip to port 8080 with the health check /servez."
}

variable "alarm_topic_arn" {
  type        = string
  description = "The SNS topic that gets the alarms."
}

module "data" {
  source          = "../data"
  table_name      = "feed"
  queue_prefix    = "feed"
  max_write_units = 1000
  max_read_units  = 3000
}

module "services" {
  source             = "../services"
  name               = "feed"
  region             = var.region
  account_id         = var.account_id
  table_name         = module.data.table_name
  queue_prefix       = module.data.queue_prefix
  image              = var.image
  jwt_issuer         = var.jwt.issuer
  jwt_audience       = var.jwt.audience
  subnet_ids         = var.network.subnet_ids
  security_group_ids = var.network.security_group_ids
  target_group_arn   = var.balancer.target_group_arn

  # The daemons need the queues when they start.
  depends_on = [module.data]
}

module "alarms" {
  source            = "../alarms"
  name              = "feed-alarms"
  region            = var.region
  table_name        = module.data.table_name
  queue_prefix      = module.data.queue_prefix
  services          = module.services.exports
  load_balancer_arn = var.balancer.load_balancer_arn
  target_group_arn  = var.balancer.target_group_arn
  alarm_topic_arn   = var.alarm_topic_arn
}
