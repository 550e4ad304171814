// The colours somebody chose, before anything is painted. Nothing chosen: as the system is.
document.documentElement.dataset.theme = localStorage.getItem("stint-theme") ?? "auto";
