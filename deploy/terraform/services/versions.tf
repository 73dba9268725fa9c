# This file is made from deploy/cloudformation/services.yaml: change the template, and run
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
