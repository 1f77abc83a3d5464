package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	url, subject := os.Args[1], os.Args[2]
	client, err := sr.NewClient(sr.URLs(url))
	must(err)
	said := map[string]any{}
	one := sr.Schema{Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`}
	first, err := client.CreateSchema(ctx, subject, one)
	must(err)
	said["first"] = []int{first.ID, first.Version}
	again, err := client.CreateSchema(ctx, subject, one)
	must(err)
	said["again"] = []int{again.ID, again.Version}
	found, err := client.LookupSchema(ctx, subject, one)
	must(err)
	said["looked up"] = found.Version
	text, err := client.SchemaByID(ctx, first.ID)
	must(err)
	said["by id"] = text.Schema
	uses, err := client.SchemaUsagesByID(ctx, first.ID)
	must(err)
	using := []string{}
	for _, use := range uses {
		using = append(using, use.Subject)
	}
	said["uses"] = using
	worse := sr.Schema{Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`}
	fits, err := client.CheckCompatibility(ctx, subject, -1, worse)
	must(err)
	said["fits"] = fits.Is
	_, err = client.CreateSchema(ctx, subject, worse)
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		said["refused"] = refused.ErrorCode
	}
	for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, subject) {
		must(result.Err)
	}
	for _, result := range client.Compatibility(ctx, subject) {
		must(result.Err)
		said["level"] = result.Level.String()
	}
	worst, err := client.CreateSchema(ctx, subject, worse)
	must(err)
	said["second"] = worst.Version
	shared := sr.Schema{Schema: "syntax = \"proto3\"; message Place { string town = 1; }", Type: sr.TypeProtobuf}
	_, err = client.CreateSchema(ctx, subject+"-place", shared)
	must(err)
	uses3 := sr.Schema{
		Schema:     "syntax = \"proto3\"; import \"place.proto\"; message Order { int64 id = 1; Place to = 2; }",
		Type:       sr.TypeProtobuf,
		References: []sr.SchemaReference{{Name: "place.proto", Subject: subject + "-place", Version: 1}},
	}
	proto, err := client.CreateSchema(ctx, subject+"-proto", uses3)
	must(err)
	said["references"] = len(proto.References)
	by, err := client.SchemaReferences(ctx, subject+"-place", 1)
	must(err)
	said["referenced by"] = by[0].Subject
	typed, err := client.CreateSchema(ctx, subject+"-json", sr.Schema{
		Schema: `{"type":"object","properties":{"id":{"type":"integer"}}}`, Type: sr.TypeJSON})
	must(err)
	said["json"] = typed.Type.String()
	var serde sr.Serde
	type order struct{ ID int64 }
	serde.Register(typed.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	data, err := serde.Encode(order{7})
	must(err)
	said["prefix"] = data[:5]
	versions, err := client.DeleteSubject(ctx, subject, sr.SoftDelete)
	must(err)
	said["deleted"] = versions
	subjects, err := client.Subjects(ctx)
	must(err)
	said["subjects"] = subjects
	types, err := client.SupportedTypes(ctx)
	must(err)
	said["types"] = len(types)
	must(json.NewEncoder(os.Stdout).Encode(said))
}
