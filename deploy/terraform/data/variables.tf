# This file is made from deploy/cloudformation/data.yaml: change the template, and run
# go test -C e2e -run Terraform -write-terraform .

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

variable "billing_mode" {
  type        = string
  description = "On demand, or units that you pay for around the clock, with policies that scale them."
  default     = "PAY_PER_REQUEST"
  validation {
    condition     = contains(["PAY_PER_REQUEST", "PROVISIONED"], var.billing_mode)
    error_message = "billing_mode must be PAY_PER_REQUEST or PROVISIONED."
  }
}

variable "warm_read_units" {
  type        = number
  description = "Read units a second that the table and its index take from the first second on. 0 is AWS's default for a new table, 12,000."
  default     = 0
  validation {
    condition     = floor(var.warm_read_units) == var.warm_read_units && (var.warm_read_units == 0 || 12000 <= var.warm_read_units && var.warm_read_units <= 9999999)
    error_message = "warm_read_units must be 0 or a whole number from 12000 to 9999999."
  }
}

variable "warm_write_units" {
  type        = number
  description = "Write units a second that the table and its index take from the first second on. 0 is AWS's default for a new table, 4,000."
  default     = 0
  validation {
    condition     = floor(var.warm_write_units) == var.warm_write_units && (var.warm_write_units == 0 || 4000 <= var.warm_write_units && var.warm_write_units <= 9999999)
    error_message = "warm_write_units must be 0 or a whole number from 4000 to 9999999."
  }
}

variable "max_write_units" {
  type        = number
  description = "The most write units a second on demand, of the table and again of its index. 0 is no ceiling."
  default     = 0
  validation {
    condition     = floor(var.max_write_units) == var.max_write_units && 0 <= var.max_write_units && var.max_write_units <= 9999999
    error_message = "max_write_units must be a whole number from 0 to 9999999."
  }
}

variable "max_read_units" {
  type        = number
  description = "The most read units a second on demand, of the table and again of its index. 0 is no ceiling."
  default     = 0
  validation {
    condition     = floor(var.max_read_units) == var.max_read_units && 0 <= var.max_read_units && var.max_read_units <= 9999999
    error_message = "max_read_units must be a whole number from 0 to 9999999."
  }
}

variable "write_units" {
  type        = object({ min = number, max = number })
  description = "Write units a second of the table with PROVISIONED, the least and the most that its policy scales to."
  default     = null
  validation {
    condition     = var.write_units == null ? true : floor(var.write_units.min) == var.write_units.min && floor(var.write_units.max) == var.write_units.max
    error_message = "write_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
  validation {
    condition     = var.write_units == null ? true : 1 <= var.write_units.min && var.write_units.min <= var.write_units.max && var.write_units.max <= 9999999
    error_message = "write_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
}

variable "read_units" {
  type        = object({ min = number, max = number })
  description = "Read units a second of the table with PROVISIONED, the least and the most that its policy scales to."
  default     = null
  validation {
    condition     = var.read_units == null ? true : floor(var.read_units.min) == var.read_units.min && floor(var.read_units.max) == var.read_units.max
    error_message = "read_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
  validation {
    condition     = var.read_units == null ? true : 1 <= var.read_units.min && var.read_units.min <= var.read_units.max && var.read_units.max <= 9999999
    error_message = "read_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
}

variable "index_write_units" {
  type        = object({ min = number, max = number })
  description = "Write units a second of the index with PROVISIONED, the least and the most that its policy scales to."
  default     = null
  validation {
    condition     = var.index_write_units == null ? true : floor(var.index_write_units.min) == var.index_write_units.min && floor(var.index_write_units.max) == var.index_write_units.max
    error_message = "index_write_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
  validation {
    condition     = var.index_write_units == null ? true : 1 <= var.index_write_units.min && var.index_write_units.min <= var.index_write_units.max && var.index_write_units.max <= 9999999
    error_message = "index_write_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
}

variable "index_read_units" {
  type        = object({ min = number, max = number })
  description = "Read units a second of the index with PROVISIONED, the least and the most that its policy scales to."
  default     = null
  validation {
    condition     = var.index_read_units == null ? true : floor(var.index_read_units.min) == var.index_read_units.min && floor(var.index_read_units.max) == var.index_read_units.max
    error_message = "index_read_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
  validation {
    condition     = var.index_read_units == null ? true : 1 <= var.index_read_units.min && var.index_read_units.min <= var.index_read_units.max && var.index_read_units.max <= 9999999
    error_message = "index_read_units must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to 9999999."
  }
}

variable "first_write_units" {
  type        = number
  description = "Write units of the table when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = 0
  validation {
    condition     = floor(var.first_write_units) == var.first_write_units && 0 <= var.first_write_units && var.first_write_units <= 9999999
    error_message = "first_write_units must be a whole number from 0 to 9999999."
  }
}

variable "first_read_units" {
  type        = number
  description = "Read units of the table when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = 0
  validation {
    condition     = floor(var.first_read_units) == var.first_read_units && 0 <= var.first_read_units && var.first_read_units <= 9999999
    error_message = "first_read_units must be a whole number from 0 to 9999999."
  }
}

variable "first_index_write_units" {
  type        = number
  description = "Write units of the index when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = 0
  validation {
    condition     = floor(var.first_index_write_units) == var.first_index_write_units && 0 <= var.first_index_write_units && var.first_index_write_units <= 9999999
    error_message = "first_index_write_units must be a whole number from 0 to 9999999."
  }
}

variable "first_index_read_units" {
  type        = number
  description = "Read units of the index when it becomes PROVISIONED. Never change it while it is, because an update would set the capacity back to it."
  default     = 0
  validation {
    condition     = floor(var.first_index_read_units) == var.first_index_read_units && 0 <= var.first_index_read_units && var.first_index_read_units <= 9999999
    error_message = "first_index_read_units must be a whole number from 0 to 9999999."
  }
}

variable "deletion_protection" {
  type        = bool
  description = "AWS refuses to delete the table."
  default     = true
}
