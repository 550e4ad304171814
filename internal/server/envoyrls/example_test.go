package envoyrls_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/memorystore"
)

func Example() {
	config, err := envoyrls.Parse("messaging.yaml", []byte(`
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 1}
`))
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	service, err := envoyrls.NewService(store, config, envoyrls.Options{})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Print(service.Config().Dump())
	for range 2 {
		response, err := service.ShouldRateLimit(context.Background(),
			ask("messaging", "message_type=marketing,to_number=2061111111"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(response.GetOverallCode())
	}
	// Output:
	// messaging.message_type_marketing.to_number: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false
	// OK
	// OVER_LIMIT
}

// A configuration is read as a whole: every mistake is told, with its place and what would be
// right.
func ExampleParse_mistakes() {
	_, err := envoyrls.Parse("messaging.yaml", []byte(`domain: messaging
descriptors:
  - key: to_number
    rate_limit:
      unit: fortnight
      requests_per_unit: 5
      shadow_mode: true
`))
	fmt.Println(err)
	// Output:
	// messaging.yaml:5: descriptors[0].rate_limit.unit: invalid rate limit unit 'fortnight'; want second, minute, hour, day, week, month or year
	// messaging.yaml:7: descriptors[0].rate_limit: config error, unknown key 'shadow_mode'; it belongs to a descriptor
}
