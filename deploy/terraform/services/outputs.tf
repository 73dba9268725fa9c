# This file is made from deploy/cloudformation/services.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

output "operator_policy" {
  value = awscc_iam_managed_policy.operator_policy.policy_arn
}

output "cluster" {
  value = awscc_ecs_cluster.cluster.cluster_name
}

output "api_service" {
  value = awscc_ecs_service.api_service.name
}

output "fanout_service" {
  value = awscc_ecs_service.fanout_service.name
}

output "likeagg_service" {
  value = awscc_ecs_service.likeagg_service.name
}

output "exports" {
  value = {
    name    = var.name
    cluster = awscc_ecs_cluster.cluster.cluster_name
    api     = awscc_ecs_service.api_service.name
    fanout  = awscc_ecs_service.fanout_service.name
    likeagg = awscc_ecs_service.likeagg_service.name
  }
}
