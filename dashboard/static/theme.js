// Applies the chosen theme before anything is painted. The default is the system's.
document.documentElement.dataset.theme = localStorage.getItem("stint-theme") ?? "auto";
