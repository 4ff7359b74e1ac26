package source

// preset is the mapping of a provider whose events look alike for everybody. What the
// settings say goes before it.
type preset struct {
	eventType, messageID, eventID []string
}

// presets hold what each provider documents: an id that is the same on every retry, and as
// message id the object that events are about, so that its events stay in order. Where an
// event has no such object the next in the list stands in.
var presets = map[string]preset{
	SchemeStandardWebhooks: {
		eventType: []string{"json:type"},
		messageID: []string{"json:data.id", "header:webhook-id", "header:svix-id"},
		eventID:   []string{"header:webhook-id", "header:svix-id"},
	},
	SchemeGitHub: {
		eventType: []string{"header:X-GitHub-Event", "json:action?"},
		messageID: []string{"json:repository.id", "json:organization.id", "json:installation.id", "header:X-GitHub-Delivery"},
		eventID:   []string{"header:X-GitHub-Delivery"},
	},
	SchemeStripe: {
		eventType: []string{"json:type"},
		messageID: []string{"json:data.object.id", "json:id"},
		eventID:   []string{"json:id"},
	},
	SchemeSlack: {
		eventType: []string{"json:event.type"},
		messageID: []string{"json:event.channel", "json:event.channel.id", "json:event.item.channel", "json:event.user", "json:event.user.id", "json:team_id"},
		eventID:   []string{"json:event_id"},
	},
	SchemeShopify: {
		eventType: []string{"header:X-Shopify-Topic"},
		messageID: []string{"json:id", "header:X-Shopify-Webhook-Id"},
		eventID:   []string{"header:X-Shopify-Webhook-Id"},
	},
	SchemeHMAC: {},
}
