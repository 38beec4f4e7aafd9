package trl

import (
	"errors"
	"testing"
)

func TestHostAnotherVersionIsRefused(t *testing.T) {
	for _, version := range []uint32{9<<16 | 1<<8, uint32(VersionMajor)<<16 | 99<<8} {
		if failed := suits(version); !errors.Is(failed, EUnsupported) {
			t.Fatal(version, failed)
		}
	}
	if failed := suits(uint32(VersionMajor)<<16 | uint32(VersionMinor)<<8 | 99); failed != nil {
		t.Fatal(failed)
	}
	kept := wrongVersion
	wrongVersion = suits(9 << 16)
	defer func() { wrongVersion = kept }()
	if _, err := NewConfig(nil); !errors.Is(err, EUnsupported) {
		t.Fatal(err)
	}
}
