package oracle

import (
	"mime"
	"net/url"
	"regexp"
	"strings"
)

var visibleForm = regexp.MustCompile(`^[!-~]+$`)

// reference says whether v is a URI reference, as far as net/url can tell.
func reference(v string) bool {
	_, err := url.Parse(v)
	return visibleForm.MatchString(v) && err == nil
}

// mediaType says whether v is a media type.
func mediaType(v string) bool {
	media, _, err := mime.ParseMediaType(v)
	return err == nil && strings.Count(media, "/") == 1
}
