package outbound

// Stats is that of one API, also of one that is no longer registered.
func (c *Client) Stats() Stats { return c.stats() }
