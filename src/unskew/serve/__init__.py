"""A model behind HTTP: answers, lists with logged chances, and a model that is replaced while it serves."""
