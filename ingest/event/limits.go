package event

// Limits of the envelope. Ingest refuses what breaks them, Decode calls it poison.
const (
	MaxType        = 128 // bytes of the event type
	MaxMessageID   = 128
	MaxID          = 128
	MaxTenant      = 64
	MaxOrigin      = 64
	MaxSchema      = 32
	MaxSource      = 512
	MaxContentType = 256
	// MaxSequence is the largest integer that every JSON reader keeps exact.
	MaxSequence = 1<<53 - 1
)

// HeaderRoom is what a record may need beyond its body: the headers of an event at their
// limits plus those of a retry ticket. A topic must take body limit + HeaderRoom.
const HeaderRoom = 16 << 10

// ValidType says whether s is one or more dot-separated words of [A-Za-z0-9_-], at most
// MaxType bytes.
func ValidType(s string) bool {
	if len(s) == 0 || len(s) > MaxType {
		return false
	}
	word := 0
	for i := 0; i < len(s); i++ {
		switch {
		case isWord(s[i]):
			word++
		case s[i] == '.' && word > 0:
			word = 0
		default:
			return false
		}
	}
	return word > 0
}

// ValidMessageID says whether s is 1 to MaxMessageID bytes of visible ASCII.
func ValidMessageID(s string) bool { return visible(s, MaxMessageID) }

// ValidID says whether s may be a Webhook-Id: [A-Za-z0-9_-], no full stop, since that would
// make the signed content ambiguous.
func ValidID(s string) bool { return wordy(s, MaxID) }

// ValidTenant says whether s may name a tenant: 1 to MaxTenant bytes of [A-Za-z0-9_-].
func ValidTenant(s string) bool { return wordy(s, MaxTenant) }

// ValidSchema says whether s may be a contract version: 1 to MaxSchema visible ASCII.
func ValidSchema(s string) bool { return visible(s, MaxSchema) }

// ValidTraceparent says whether s is a W3C trace parent that may be passed on. A broken one
// is dropped, as the recommendation asks; it is never a reason to refuse an event.
func ValidTraceparent(s string) bool {
	if len(s) < 55 || len(s) > 128 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	if !hex(s[:2]) || !hex(s[3:35]) || !hex(s[36:52]) || !hex(s[53:55]) {
		return false
	}
	if s[:2] == "ff" || s[3:35] == zeros[:32] || s[36:52] == zeros[:16] {
		return false
	}
	if len(s) == 55 {
		return true
	}
	// A later version may append fields; version 00 may not.
	return s[:2] != "00" && s[55] == '-' && visible(s, 128)
}

const zeros = "00000000000000000000000000000000"

func hex(s string) bool {
	for i := 0; i < len(s); i++ {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func wordy(s string, limit int) bool {
	for i := 0; i < len(s); i++ {
		if !isWord(s[i]) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= limit
}

func visible(s string, limit int) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= limit
}

// printable is visible with blanks allowed: what an HTTP header value may hold.
func printable(s string, limit int) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= limit
}
