package policy

import (
	"fmt"
	"slices"

	"github.com/stint-limiter/stint/internal/messages"
)

const (
	identityIP       = "ip"
	identityUser     = "user"
	identityEveryone = "everyone"
)

func (c *compiler) allIdentities() {
	c.identities = map[string]*identity{
		identityIP:       {name: identityIP, typ: identityIP, kind: byAddress},
		identityUser:     {name: identityUser, typ: identityUser, kind: byClaim, key: identityUser},
		identityEveryone: {name: identityEveryone, typ: identityEveryone, kind: byNothing},
	}
	names := sorted(c.spec.Identities)
	for _, name := range names {
		key := "identities." + name
		if name == identityIP || name == identityEveryone {
			c.mistake(key, "is the name of a predefined identity; choose another name")
			continue
		}
		if c.nameOK(key, name) {
			c.identities[name] = c.identity(key, name)
		}
	}
	for _, name := range names { // after the loop above, so that all identities are known
		c.identityParts("identities."+name, c.identities[name], c.spec.Identities[name].All)
	}
	types := map[string]string{}
	for i, name := range sorted(c.identities) {
		c.identities[name].index = i
		typ := c.identities[name].typ
		if other, ok := types[typ]; ok {
			c.mistakeGiven([]string{"identities." + other}, "identities."+name+".type", "%q is also the type of %s, so one caller could pass as another; choose another type", typ, other)
		}
		types[typ] = name
	}
	c.set.identities = len(c.identities)
}

func (c *compiler) identity(key, name string) *identity {
	from := c.spec.Identities[name]
	id := &identity{name: name, typ: name, plain: from.Plain}
	if from.Type != "" && c.nameOK(key+".type", from.Type) {
		id.typ = from.Type
	}
	ways := 0
	if from.Claim != "" {
		ways++
		id.kind, id.key = byClaim, from.Claim
	}
	if from.Header != "" {
		ways++
		id.kind, id.key = byHeader, c.field(key+".header", from.Header)
	}
	if from.Cookie != "" {
		ways++
		id.kind, id.key = byCookie, from.Cookie
		if id.cookie = slices.Index(c.set.cookies, id.key); id.cookie < 0 {
			id.cookie, c.set.cookies = len(c.set.cookies), append(c.set.cookies, id.key)
		}
	}
	if len(from.All) > 0 {
		ways++
		id.kind = byAll
	}
	if id.kind == byHeader || id.kind == byCookie {
		c.set.chosen = append(c.set.chosen, id)
	}
	if ways != 1 {
		c.mistake(key, "has %d of claim, header, cookie and all; want exactly one", ways)
	}
	if from.Plain && from.Header == "" && from.Cookie == "" {
		c.mistake(key+".plain", "applies only to headers and cookies; other values are never hashed")
	}
	return id
}

// identityParts sets id.parts to the identities with the given names. It does nothing if id is nil
// or not a combined identity.
func (c *compiler) identityParts(key string, id *identity, parts []string) {
	if id == nil || id.kind != byAll {
		return
	}
	for i, name := range parts {
		at := fmt.Sprintf("%s.all[%d]", key, i)
		part := c.identityNamed(at, name)
		switch {
		case part == nil:
		case part.kind == byAll || part.kind == byNothing:
			c.mistake(at, "%q cannot be a part; want identities by address, claim, header or cookie", name)
		case slices.Contains(id.parts, part):
			c.mistake(at, "%q is listed twice; list it once", name)
		default:
			id.parts = append(id.parts, part)
		}
	}
	if len(parts) == 1 {
		c.mistake(key+".all", "has one part; use %q itself", parts[0])
	}
}

// identityNamed returns the identity with the given name. If there is none, it adds a mistake and
// returns nil.
func (c *compiler) identityNamed(key, name string) *identity {
	id, ok := c.identities[name]
	if !ok {
		if c.names == nil {
			c.names = sorted(c.identities)
		}
		c.mistakeGiven([]string{"identities." + name}, key, "unknown identity %q; %s", name, messages.Want(name, c.names))
	}
	return id
}

// who returns the identities with the given names. It adds a mistake for each name that does not
// exist, and for each identity that every request has, unless it is the last one.
func (c *compiler) who(key string, names []string) []*identity {
	var who []*identity
	for i, name := range names {
		key := at(key, i, names)
		id := c.identityNamed(key, name)
		if id == nil {
			continue
		}
		if i < len(names)-1 && id.always() {
			c.mistake(key, "every request has %q, so the identities after it are never used; put it last", name)
		}
		who = append(who, id)
	}
	return who
}

// always reports whether there is an identity among the given ones that every request has.
func always(who []*identity) bool {
	return slices.ContainsFunc(who, func(id *identity) bool { return id.always() })
}
