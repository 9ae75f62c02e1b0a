document.body.dataset.extra = "loaded";
