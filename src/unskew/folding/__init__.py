"""New users for a fitted model, without fitting it again."""
