package stint

// HasShortcut reports whether Allow asks the store by its shortcut.
func (l *Limiter) HasShortcut() bool { return l.shortcut != nil }
