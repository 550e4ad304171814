package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/server/control"
)

type bansCommand struct {
	Most int `name:"most" short:"n" placeholder:"N" default:"100" help:"How many to list. Default: ${default}."`
	adminFlags
}

func (*bansCommand) Help() string {
	return `The longest-lasting bans come first. This scans everything that is stored, which takes a while in a large Redis database.

    stint bans
    stint bans --store redis://localhost:6379/0 --most 1000 --json`
}

func (c *bansCommand) Validate(k *kong.Context) error {
	if c.Most < 1 || c.Most > control.MaxBans {
		return fmt.Errorf("--most: %d; want 1 to %d", c.Most, control.MaxBans)
	}
	return c.adminFlags.Validate(k)
}

func (c *bansCommand) Run(s *system) error {
	ctx := context.Background()
	return c.act(ctx, s, "", func(a admin) error {
		bans, err := a.Bans(ctx, c.Most)
		if err != nil {
			return err
		}
		return s.show(c.JSON, struct {
			Bans []control.Ban `json:"bans"`
		}{append([]control.Ban{}, bans...)}, func() []byte { return bansText(bans, c.Most, time.Now()) })
	})
}

func bansText(bans []control.Ban, most int, now time.Time) []byte {
	if len(bans) == 0 {
		return []byte("no subject is banned\n")
	}
	var b bytes.Buffer
	columns(&b, func(line func(...string)) {
		line("SUBJECT", "ENDS IN", "UNTIL", "WHICH", "REF")
		for _, ban := range bans {
			line(ban.Subject, figures.Length(max(ban.Until.Sub(now), 0)), ban.Until.UTC().Format(time.RFC3339),
				banNumber(ban.Level), refText(ban.Ref))
		}
	})
	if len(bans) == most {
		fmt.Fprintf(&b, "there may be more; --most %d shows them\n", min(10*most, control.MaxBans))
	}
	return trimLines(b.Bytes())
}
