import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes events as a Java application would: Producer SEEDS TOPIC TRANSACTIONAL-ID. */
public class Producer {
  static String topic;

  static KafkaProducer<String, String> open(String seeds, String codec, String transactionalId) {
    Properties p = new Properties();
    p.put("bootstrap.servers", seeds);
    p.put("compression.type", codec);
    p.put("linger.ms", "20");
    if (transactionalId != null) {
      p.put("transactional.id", transactionalId);
    }
    return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
  }

  static ProducerRecord<String, String> event(Integer partition, String key, String body) {
    ProducerRecord<String, String> r = new ProducerRecord<>(topic, partition, key, body);
    r.headers().add("ce_type", "message.sent".getBytes());
    r.headers().add("ce_id", body.replaceAll("[^a-z0-9-]", "").getBytes());
    r.headers().add("hl_tenant", "dev".getBytes());
    return r;
  }

  public static void main(String[] args) throws Exception {
    topic = args[1];
    for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
      try (KafkaProducer<String, String> p = open(args[0], codec, null)) {
        for (int i = 0; i < 10; i++) {
          p.send(event(null, "key-" + codec + "-" + i, "{\"codec\":\"" + codec + "-" + i + "\"}"));
        }
      }
    }
    try (KafkaProducer<String, String> p = open(args[0], "lz4", args[2])) {
      p.initTransactions();
      for (String end : new String[] {"aborted", "committed"}) {
        p.beginTransaction();
        for (int i = 0; i < 6; i++) {
          p.send(event(null, "key-" + i, "{\"" + end + "\":" + i + "}"));
        }
        p.flush();
        if (end.equals("aborted")) {
          p.abortTransaction();
        } else {
          p.commitTransaction();
        }
      }
    }
    try (KafkaProducer<String, String> p = open(args[0], "none", null)) {
      for (int partition = 0; partition < 3; partition++) {
        p.send(event(partition, "misplaced", "{\"misplaced\":" + partition + "}"));
      }
    }
  }
}
