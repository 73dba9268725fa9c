# This file is made from deploy/cloudformation/data.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

output "table_name" {
  value = awscc_dynamodb_table.table.table_name
}

output "queue_prefix" {
  value = var.queue_prefix
}
