"""What people and programs read: tables, JSON, YAML, pictures."""
