// Applies the chosen theme before the first paint. The default is the theme of the system.
document.documentElement.dataset.theme = localStorage.getItem("stint-theme") ?? "auto";
