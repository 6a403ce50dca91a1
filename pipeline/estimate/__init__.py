"""What a run would take, from a site's network and a closed-form model. Torch-free; nothing is fitted to an answer."""
